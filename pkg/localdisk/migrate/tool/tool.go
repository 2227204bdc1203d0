// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tool has what the commands that adopt, release and acknowledge have in common, wherever they
// run: in the kubectl plugin, and in the Job that uninstalls.
package tool

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/client-go/util/workqueue"

	"stowage.dev/stowage/pkg/localdisk/migrate"
)

// Limits of the requests of a tool, which runs once for the whole cluster: patching and deleting 10,000
// volumes takes 100 s. A provisioner, which runs on every node, has less.
const (
	QPS   = 200
	Burst = 400
)

// workers is how many objects are written at a time: with more, the limit is QPS, not the latency of the
// API server.
const workers = 16

// Output is where a tool prints.
type Output struct {
	// Out has what was found and done, Err the errors of single objects.
	Out, Err io.Writer
	// Table prints rows of equal length, the first of which are the headers.
	Table func(rows [][]string)
}

// Batch is objects that are written one by one.
type Batch[T any] struct {
	All []T
	// What is the plural of the objects in messages, such as volumes.
	What string
	// Write writes an object, and returns its name. It is called for several at a time.
	Write func(context.Context, *T) (name string, err error)
}

// Run writes all objects, prints the errors in their order, and returns the number of successes.
func (b Batch[T]) Run(ctx context.Context, errOut io.Writer) (int, error) {
	type outcome struct {
		tried bool
		name  string
		err   error
	}
	outcomes := make([]outcome, len(b.All))
	workqueue.ParallelizeUntil(ctx, workers, len(b.All), func(i int) {
		name, err := b.Write(ctx, &b.All[i])
		outcomes[i] = outcome{true, name, err}
	})
	done, changed, failed := 0, 0, 0
	for _, o := range outcomes {
		switch {
		case !o.tried, o.err != nil && ctx.Err() != nil && errors.Is(o.err, ctx.Err()):
		case errors.Is(o.err, migrate.ErrChanged):
			changed++
			fmt.Fprintf(errOut, "%s: %v\n", o.name, migrate.ErrChanged)
		case o.err != nil:
			failed++
			fmt.Fprintf(errOut, "%s: %v\n", o.name, o.err)
		default:
			done++
		}
	}
	switch {
	case ctx.Err() != nil:
		return done, fmt.Errorf("interrupted after %d of %d %s: run this again", done, len(b.All), b.What)
	case failed > 0:
		return done, fmt.Errorf("%d of %d %s could not be written, for the reasons above: run this again", failed+changed, len(b.All), b.What)
	case changed > 0:
		return done, fmt.Errorf("%d of %d %s were changed by others at the same time: run this again", changed, len(b.All), b.What)
	}
	return done, nil
}
