// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// signs are the signs of each disk that a read of its health returns.
type signs struct {
	mu  sync.Mutex
	all map[disk.Identity][]disk.Sign
}

func (s *signs) ReadHealth(targets []disk.HealthTarget, _ time.Duration) (map[disk.Identity][]disk.Sign, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[disk.Identity][]disk.Sign{}
	for _, t := range targets {
		found[t.Identity] = s.all[t.Identity]
	}
	return found, nil
}

// show shows signs of a disk from now on; none ends that.
func (s *signs) show(identity disk.Identity, reasons ...disk.Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = map[disk.Identity][]disk.Sign{}
	for _, reason := range reasons {
		s.all[identity] = append(s.all[identity], disk.Sign{Reason: reason, Message: "found"})
	}
}

// TestHealth: within half a minute of a sign a bound volume of a failing disk is marked, and a free
// one withdrawn, until an administrator resets the disk; a degraded disk is only reported.
func TestHealth(t *testing.T) {
	const soon = 30 * time.Second
	for name, test := range map[string]struct {
		sign  disk.Reason
		bound bool
		state string
		mark  string
	}{
		"a bound volume of a disk that lost data": {disk.WriteLost, true, "Failing: WriteLost", "Failing"},
		"a bound volume of a hung disk":           {disk.Hung, true, "Failing: Hung", "Failing"},
		"a bound volume of a disk with an error":  {disk.DiskErrors, true, "Bound: DiskErrors", ""},
		"a free volume of a disk that lost data":  {disk.WriteLost, false, "Failing: WriteLost", ""},
		"a free volume of a disk with an error":   {disk.DiskErrors, false, "Available: DiskErrors", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.signs = &signs{}
				identity := e.disks.add("disk1", "")
				e.start()
				e.phase(corev1.VolumeAvailable)
				if test.bound {
					e.phase(corev1.VolumeBound)
				}
				e.pass(time.Minute)
				e.events.take()
				first := e.volume().UID
				e.signs.show(identity, test.sign)
				e.pass(5 * time.Second)
				e.signs.show(identity)
				e.pass(soon - 5*time.Second)
				e.expect("disk1", test.state)
				failing := strings.HasPrefix(test.state, "Failing")
				if pv := e.volume(); pv == nil || (pv.DeletionTimestamp != nil) != (failing && !test.bound) {
					t.Errorf("the volume is %v", pv)
				}
				if test.bound {
					e.marked("after the sign", test.mark)
				}
				if events := e.events.take(); len(events) == 0 || !strings.HasPrefix(events[0], "Warning "+string(test.sign)+": ") {
					t.Errorf("events are %q", events)
				}
				e.start()
				e.pass(10 * time.Second)
				e.expect("disk1", test.state)

				e.pass(10 * time.Minute)
				e.reset(identity)
				e.pass(15 * time.Minute)
				want := "Available"
				if test.bound {
					want = "Bound"
					e.marked("after the reset", "")
				} else if pv := e.volume(); failing && (pv == nil || pv.UID == first) {
					t.Errorf("after the reset the volume is %v, want another one", pv)
				} else {
					e.phase(corev1.VolumeAvailable)
				}
				e.expect("disk1", want)
			})
		})
	}
}

// TestReadOnlyDevice: a device that rejects writes is scanned soon, and usable again when it accepts
// them.
func TestReadOnlyDevice(t *testing.T) {
	inBubble(t, func(e *env) {
		e.signs = &signs{}
		identity := e.disks.add("disk1", "")
		e.startBound()
		e.pass(time.Minute)
		e.disks.put(bad("disk1", disk.DeviceReadOnly))
		e.signs.show(identity, disk.DeviceReadOnly)
		e.pass(10 * time.Second)
		e.marked("after the sign", "Failing")
		e.expect("disk1", "Failing: DeviceReadOnly")
		e.disks.put(fact("disk1"))
		e.signs.show(identity)
		e.pass(10 * time.Second)
		e.marked("after it accepts writes", "")
		e.expect("disk1", "Bound")
	})
}

// TestHealthOfADiskWithoutAnswer: the signs of a disk that scans cannot identify any more are those
// of the disk that was there.
func TestHealthOfADiskWithoutAnswer(t *testing.T) {
	for _, reason := range []disk.Reason{disk.TimedOut, disk.IOError} {
		t.Run(string(reason), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.signs = &signs{}
				identity := e.disks.add("disk1", "")
				e.startBound()
				e.pass(time.Minute)
				e.disks.put(bad("disk1", reason))
				e.look()
				e.marked("after one scan", "")
				e.signs.show(identity, disk.Hung)
				e.pass(10 * time.Second)
				e.marked("after the sign", "Failing")
				e.expect("disk1", "Failing: Hung")
			})
		})
	}
}

// reset resets the health of a disk as an administrator does.
func (e *env) reset(identity disk.Identity) {
	e.t.Helper()
	health := e.records.Health()[identity]
	e.annotate(wellknown.HealthyDisksAnnotation, health.ResetName(identity))
}
