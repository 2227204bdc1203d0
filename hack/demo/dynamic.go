// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// tellDynamic places a pod whose volume does not exist yet.
func tellDynamic(ctx context.Context, d *demo) error {
	d.say("Class zonal may provision in zone south only. The scheduler chooses the node, then an " +
		"external provisioner makes a volume in that node's zone.")
	return d.place(ctx, "dynamic.yaml")
}
