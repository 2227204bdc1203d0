// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
)

// tellRefused shows the reason that the owner of a pod sees.
func tellRefused(ctx context.Context, d *demo) error {
	d.say("archive asks for 50Gi, and no node has a volume of that size. kubectl describe pod archive:")
	if err := d.apply(ctx, "refused.yaml"); err != nil {
		return err
	}
	note, err := d.watch.refusal(ctx, "archive", stowage)
	if err != nil {
		return err
	}
	d.quote(note)
	if !strings.Contains(note, "didn't find available persistent volumes to bind") {
		return fmt.Errorf("pod archive was expected to be refused for want of a volume, and the reason is: %s", note)
	}
	d.say("It waits, and is tried again when a volume appears that could serve it.")
	return nil
}
