// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"stowage.dev/stowage/pkg/localdisk/migrate"
)

// Release releases volumes.
type Release struct {
	migrate.ReleaseOptions
	// StopProvisioners first deletes the provisioners' DaemonSets and the cleaning Jobs.
	StopProvisioners bool
	// Confirm writes; otherwise the volumes are only listed.
	Confirm bool
}

// stopTimeout limits the wait for the pods of provisioners and cleaning Jobs, which have a grace
// period of 30 s, on busy nodes.
const stopTimeout = 5 * time.Minute

// Run lists the volumes, and releases them if that is confirmed. It returns an error if a volume is kept.
func (r *Release) Run(ctx context.Context, client kubernetes.Interface, out Output) error {
	if r.StopProvisioners && r.Confirm {
		stopping, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		if err := migrate.StopProvisioners(stopping, client, r.Namespace); err != nil {
			return err
		}
	}
	held, err := migrate.FindHeld(ctx, client, r.ReleaseOptions)
	if err != nil {
		return err
	}
	if len(held) == 0 {
		fmt.Fprintln(out.Out, "There are no volumes to release.")
		return nil
	}
	out.Table(heldTable(held))
	var release []migrate.Held
	dirty := 0
	for _, h := range held {
		if h.Kept != "" {
			continue
		}
		release = append(release, h)
		if h.Data == migrate.NotCleaned {
			dirty++
		}
	}
	kept := len(held) - len(release)
	fmt.Fprintf(out.Out, "\n%d to release, %d of them with data of claims that are gone, %d kept.\n", len(release), dirty, kept)
	if !r.Confirm {
		fmt.Fprintln(out.Out, "Nothing was changed. To release, run this again with --confirm.")
		return nil
	}
	released, err := Batch[migrate.Held]{All: release, What: "volumes", Write: func(ctx context.Context, h *migrate.Held) (string, error) {
		return h.Volume, migrate.Release(ctx, client, h)
	}}.Run(ctx, out.Err)
	fmt.Fprintf(out.Out, "Released %d.\n", released)
	if err != nil {
		return err
	}
	if kept > 0 {
		return fmt.Errorf("%d volumes were kept: resolve the reasons in the table, then run this again", kept)
	}
	return nil
}

func heldTable(held []migrate.Held) [][]string {
	rows := [][]string{{"VOLUME", "NODE", "CLASS", "PATH", "PHASE", "CLAIM", "DISK", "RESULT"}}
	for _, h := range held {
		phase, result := string(h.Phase), "release"
		if h.Deleting {
			phase, result = "Deleting", "release: the volume is removed then"
		}
		if h.Withdrawn {
			result = "release and delete"
		}
		if h.Kept != "" {
			result = "kept: " + h.Kept
		}
		rows = append(rows, []string{h.Volume, h.Node, h.Class, h.Path, phase, h.Claim, string(h.Data), result})
	}
	return rows
}
