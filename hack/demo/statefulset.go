// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// tellStatefulSet places replicas whose two claims must meet on one node.
func tellStatefulSet(ctx context.Context, d *demo) error {
	d.say("Each asks 10Gi for data and 1Gi for its log, and both volumes must be on one node. " +
		"The tightest fit comes first, the zones take turns.")
	if err := d.apply(ctx, "statefulset.yaml"); err != nil {
		return err
	}
	for _, name := range []string{"db-0", "db-1", "db-2"} {
		pod, err := d.watch.running(ctx, name)
		if err != nil {
			return err
		}
		if err := d.tellPlaced(pod); err != nil {
			return err
		}
	}
	return nil
}
