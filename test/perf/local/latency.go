// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
)

// noProvisioner is no kind of disk: a client creates a volume.
const noProvisioner = "none"

// latencies measures how long it takes until a disk that appears is an Available
// volume, and until a volume that is Released is Available again. One thing happens at a time.
func (b *bench) latencies(ctx context.Context, r *parts.Run) (measured figures.Set, err error) {
	err = b.with(ctx, func(n *node) error {
		if err := n.start(ctx); err != nil {
			return err
		}
		// The first volume shows that the provisioner runs and the policies are in force.
		if _, err := n.appears(ctx, tmpfsClass, "first"); err != nil {
			return err
		}
		appear, err := series(r.Number("disks"), "Appear", append(slices.Clone(classes), noProvisioner), func(kind string, i int) (float64, error) {
			if kind == noProvisioner {
				return n.created(ctx, fmt.Sprintf("bare-%d", i))
			}
			return n.appears(ctx, kind, fmt.Sprintf("disk-%d", i))
		})
		if err != nil {
			return err
		}
		release, err := series(r.Number("disks"), "Release", classes, func(kind string, _ int) (float64, error) {
			bound, err := n.claim(ctx, kind)
			if err != nil {
				return 0, err
			}
			return n.release(ctx, bound)
		})
		measured = slices.Concat(appear, release)
		return err
	})
	return measured, err
}

// series measures a number of times, in seconds, of each kind, the kinds in turn.
func series(count int, name string, kinds []string, one func(kind string, i int) (float64, error)) (set figures.Set, err error) {
	times := make([][]float64, len(kinds))
	for i := range count {
		if i%10 == 0 {
			parts.Progress("%s, %d of %d done", name, i, count)
		}
		for k, kind := range kinds {
			took, err := one(kind, i)
			if err != nil {
				return nil, err
			}
			times[k] = append(times[k], took)
		}
	}
	for k, kind := range kinds {
		set = append(set, figures.Line(name+"/disk="+kind, count, figures.Times(times[k])...))
	}
	return set, nil
}

// appears has a disk appear. The step itself is in the time.
func (n *node) appears(ctx context.Context, kind, name string) (float64, error) {
	appear, err := n.prepare(ctx, kind, name)
	if err != nil {
		return 0, err
	}
	return n.untilAvailable(ctx, n.path(kind, name), appear)
}

// created is the least that any provisioner needs: one request, and the
// PersistentVolume controller's answer to it.
func (n *node) created(ctx context.Context, name string) (float64, error) {
	volume := builders.MakePV(name).Class("other").Hostname("other").Obj()
	volume.Spec.Local.Path = "/nowhere/" + name
	return n.untilAvailable(ctx, volume.Spec.Local.Path, func() error {
		_, err := n.cluster.Client().CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		return err
	})
}

// untilAvailable is how many seconds pass from do until a path has an Available volume.
func (n *node) untilAvailable(ctx context.Context, path string, do func() error) (float64, error) {
	begin := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	seen, err := n.volumes.available(ctx, path, "")
	return seen.Sub(begin).Seconds(), err
}
