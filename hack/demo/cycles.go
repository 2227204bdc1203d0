// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// life is when a volume was first seen in each state.
type life struct{ released, cleaning, available time.Time }

// lives records when volumes were first seen in each state. Safe for concurrent use.
type lives struct {
	mu    sync.Mutex
	begin time.Time
	byUID map[types.UID]life
}

// restart sets the time that cycles count from.
func (l *lives) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin = time.Now()
}

// saw records a version of a volume; informers call it for each.
func (l *lives) saw(object any) {
	pv, ok := object.(*v1.PersistentVolume)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.byUID[pv.UID]
	first := func(at *time.Time, is bool) {
		if is && at.IsZero() {
			*at = time.Now()
		}
	}
	first(&now.cleaning, pv.DeletionTimestamp != nil)
	first(&now.released, pv.Status.Phase == v1.VolumeReleased)
	first(&now.available, pv.Status.Phase == v1.VolumeAvailable && pv.DeletionTimestamp == nil)
	if l.byUID == nil {
		l.byUID = map[types.UID]life{}
	}
	l.byUID[pv.UID] = now
}

// cycle is the time from the release of a volume to the publication of its successor.
type cycle struct {
	former, next *v1.PersistentVolume
	// since the claims were deleted
	released, cleaning, available time.Duration
}

func (l *lives) cycle(former, next *v1.PersistentVolume) cycle {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, fresh := l.byUID[former.UID], l.byUID[next.UID]
	return cycle{former, next, old.released.Sub(l.begin), old.cleaning.Sub(l.begin), fresh.available.Sub(l.begin)}
}

// check returns an error for a state that was skipped or came too early. The duration of a
// state that was not seen is negative.
func (c cycle) check() error {
	switch {
	case c.released < 0:
		return fmt.Errorf("volume %s was not seen Released", c.former.Name)
	case c.cleaning < c.released:
		return fmt.Errorf("volume %s was not seen to be deleted after it was Released", c.former.Name)
	case c.available < c.cleaning:
		return fmt.Errorf("volume %s was Available before its disk was cleaned", c.next.Name)
	}
	return nil
}

// lifeCycles waits until each volume has been deleted, and another one is Available for
// the same path of the same node.
func (w *watch) lifeCycles(ctx context.Context, l *lives, former []*v1.PersistentVolume) ([]cycle, error) {
	missing := ""
	var cycles []cycle
	err := w.until(ctx, "released volumes become Available again", func() (bool, error) {
		cycles = cycles[:0]
		for _, pv := range former {
			next := w.successor(pv)
			if next == nil || l.cycle(pv, next).available < 0 { // the lister is ahead of the record
				missing = pv.Name
				return false, nil
			}
			cycles = append(cycles, l.cycle(pv, next))
		}
		return true, nil
	}, func() string { return "; no volume replaces " + missing })
	return cycles, err
}

// successor returns the Available volume of the same disk; nil for none.
func (w *watch) successor(former *v1.PersistentVolume) *v1.PersistentVolume {
	all, _ := w.volumes.List(labels.Everything()) // never fails
	for _, pv := range all {
		if pv.UID != former.UID && pv.Spec.Local != nil && localpv.PathOf(pv) == localpv.PathOf(former) &&
			nodeOf(pv) == nodeOf(former) && pv.Status.Phase == v1.VolumeAvailable && pv.DeletionTimestamp == nil {
			return pv
		}
	}
	return nil
}

// printCycles prints when each volume was in each state, and checks the order.
func (d *demo) printCycles(cycles []cycle) error {
	table := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "%sNODE\tDISK\tVOLUME\tRELEASED\tCLEANING FROM\tAVAILABLE AGAIN\n", indent)
	var errs []error
	for _, c := range cycles {
		disk := c.former.Spec.StorageClassName + localpv.PathOf(c.former)[strings.LastIndex(localpv.PathOf(c.former), "/"):]
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%d ms\t%d ms\t%d ms\n", indent, nodeOf(c.former), disk, short(c.next.Name),
			c.released.Milliseconds(), c.cleaning.Milliseconds(), c.available.Milliseconds())
		errs = append(errs, c.check())
	}
	return errors.Join(append(errs, table.Flush())...)
}

// checkNew returns an error unless the volumes are other objects of the same disks.
func checkNew(former, now []*v1.PersistentVolume) error {
	if len(former) != len(now) {
		return fmt.Errorf("%d volumes, want %d", len(now), len(former))
	}
	for i, pv := range now {
		switch was := former[i]; {
		case nodeOf(pv) != nodeOf(was) || localpv.PathOf(pv) != localpv.PathOf(was):
			return fmt.Errorf("volume %s is %s of %s, want %s of %s", pv.Name, localpv.PathOf(pv), nodeOf(pv), localpv.PathOf(was), nodeOf(was))
		case pv.UID == was.UID:
			return fmt.Errorf("volume %s was bound again without being published again", pv.Name)
		}
	}
	return nil
}

// nodeOf is the node whose provisioner published a volume.
func nodeOf(pv *v1.PersistentVolume) string { return pv.Annotations[wellknown.NodeNameAnnotation] }
