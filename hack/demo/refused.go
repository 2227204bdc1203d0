// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// noVolumes is what a scheduler says of nodes that have no volumes for a pod.
const noVolumes = "didn't find available persistent volumes to bind"

// tellRefused shows the reason that the owner of a pod sees.
func tellRefused(ctx context.Context, d *demo) error {
	d.say("archive asks for 50Gi, and no node has a volume of that size. kubectl describe pod archive:")
	if err := d.apply(ctx, "refused.yaml"); err != nil {
		return err
	}
	said, err := d.watch.refusal(ctx, "archive", stowage, noVolumes)
	if err != nil {
		return err
	}
	d.quote(said)
	d.say("It waits, and is tried again when a volume appears that could serve it.")
	return nil
}
