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

// marked checks the mark of the only volume.
func (e *env) marked(when, want string) {
	e.t.Helper()
	if got := e.volume().Annotations[wellknown.DiskAnnotation]; got != want {
		e.t.Errorf("%s the mark is %q, want %q", when, got, want)
	}
}

// TestMark: a bound volume is marked while its disk is missing or replaced.
func TestMark(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.startBound()
		e.events.take()
		e.marked("at first", "")

		e.disks.take("disk1")
		e.look()
		e.pass(time.Minute) // one look that finds nothing is not believed
		e.marked("without its disk", "Missing")
		e.expect("disk1", "Missing: Missing")

		other := fact("disk1")
		other.Identity = "fs:other:/"
		e.disks.put(other)
		e.look()
		e.marked("with another disk", "Replaced")
		e.expect("disk1", "Replaced: Replaced")
		e.start() // the next provisioner has the same result
		e.marked("after a restart", "Replaced")

		e.disks.put(fact("disk1"))
		e.look()
		e.marked("with its disk", "")
		e.expect("disk1", "Bound")
		if got := e.disks.cleaned(); len(got) > 0 {
			t.Errorf("cleaned %q", got)
		}
		counts := map[string]int{}
		for _, event := range e.events.take() {
			counts[strings.Fields(event)[1]]++
		}
		if counts["Missing:"] != 1 || counts["Replaced:"] != 2 { // one of each provisioner
			t.Errorf("events are %v", counts)
		}
	})
}

// TestRemovedDiskMark is written again until the disk returns or an administrator
// accepts the new disk.
func TestRemovedDiskMark(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.startBound()
		other := fact("disk1")
		other.Identity = "fs:other:/"
		e.disks.put(other)
		e.look()
		e.change(func(pv *corev1.PersistentVolume) { delete(pv.Annotations, wellknown.DiskAnnotation) })
		e.marked("taken off", "Replaced")

		e.change(func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.SameDiskAnnotation] = "fs:other:/" })
		e.marked("accepted", "")
		e.expect("disk1", "Bound")
		if got := e.volume().Annotations[wellknown.DiskIdentityAnnotation]; got != "fs:other:/" {
			t.Errorf("the volume's disk is %q, want the one that was accepted", got)
		}
	})
}

// TestStartupTaintOfRebuiltNode is kept until the volumes whose disks are missing are marked.
func TestStartupTaintOfRebuiltNode(t *testing.T) {
	inBubble(t, func(e *env) {
		e.config.RemoveNodeNotReadyTaint, e.config.NodeNotReadyTaintKey = true, "stowage.dev/starting"
		e.disks.add("disk1", "")
		e.startBound()
		e.pass(time.Minute)
		e.stop()

		e.disks.take("disk1")
		e.taint()
		e.start()
		for until := time.Now().Add(10 * time.Minute); len(e.taints()) > 1 && time.Now().Before(until); {
			e.pass(time.Second)
		}
		e.marked("when the taint is off", "Missing")
		if got := e.taints(); len(got) != 1 {
			t.Errorf("taints are %q, want the other one", got)
		}
	})
}
