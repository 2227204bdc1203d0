// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
)

// marked is what the only volume says of its disk.
func (e *env) marked(when, want string) {
	e.t.Helper()
	if got := e.volume().Annotations[wellknown.DiskAnnotation]; got != want {
		e.t.Errorf("%s the volume says %q of its disk, want %q", when, got, want)
	}
}

// TestMark: a bound volume says that its disk is missing or replaced, until that is back.
func TestMark(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.startBound()
		w.events.take()
		w.marked("at first", "")

		w.disks.take("disk1")
		w.look()
		w.pass(time.Minute) // one look that finds nothing is not believed
		w.marked("without its disk", "Missing")
		w.expect("disk1", "Missing: Missing")

		other := fact("disk1")
		other.Identity = "fs:other:/"
		w.disks.put(other)
		w.look()
		w.marked("with another disk", "Replaced")
		w.expect("disk1", "Replaced: Replaced")
		w.start() // and the next agent thinks the same
		w.marked("to the next agent", "Replaced")

		w.disks.put(fact("disk1"))
		w.look()
		w.marked("with its disk", "")
		w.expect("disk1", "Bound")
		if got := w.disks.cleaned(); len(got) > 0 {
			t.Errorf("cleaned %q", got)
		}
		counts := map[string]int{}
		for _, event := range w.events.take() {
			counts[strings.Fields(event)[1]]++
		}
		if counts["Missing:"] != 1 || counts["Replaced:"] != 2 { // one of each agent
			t.Errorf("events are %v", counts)
		}
	})
}

// TestMarkThatSomebodyTakesOff is written again: only the disk's return ends it, or an
// administrator who says that this is the disk now.
func TestRemovedDiskMark(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.startBound()
		other := fact("disk1")
		other.Identity = "fs:other:/"
		w.disks.put(other)
		w.look()
		w.change(func(pv *corev1.PersistentVolume) { delete(pv.Annotations, wellknown.DiskAnnotation) })
		w.marked("taken off", "Replaced")

		w.change(func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.SameDiskAnnotation] = "fs:other:/" })
		w.marked("accepted", "")
		w.expect("disk1", "Bound")
		if got := w.volume().Annotations[wellknown.DiskIdentityAnnotation]; got != "fs:other:/" {
			t.Errorf("the volume's disk is %q, want the one that was accepted", got)
		}
	})
}

// TestStartupTaintOfANodeSetUpAnew stays until the volumes whose disks are gone say so.
func TestStartupTaintOfRebuiltNode(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.RemoveNodeNotReadyTaint, w.config.NodeNotReadyTaintKey = true, "stowage.dev/starting"
		w.disks.add("disk1", "")
		w.startBound()
		w.pass(time.Minute)
		w.stop()

		w.disks.take("disk1")
		w.taint()
		w.start()
		for until := time.Now().Add(10 * time.Minute); len(w.taints()) > 1 && time.Now().Before(until); {
			w.pass(time.Second)
		}
		w.marked("when the taint is off", "Missing")
		if got := w.taints(); len(got) != 1 {
			t.Errorf("taints are %q, want the other one", got)
		}
	})
}
