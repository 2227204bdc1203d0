// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// tellPreBound places a pod whose claim an administrator has given a volume.
func tellPreBound(ctx context.Context, d *demo) error {
	d.say("The claimRef of c-20gi-kept names claim photos, which asks 3Gi. d-3gi would fit better, " +
		"but what is kept for a claim comes first.")
	return d.place(ctx, "prebound.yaml")
}
