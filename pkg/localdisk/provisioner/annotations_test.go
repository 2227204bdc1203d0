// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/device/identity"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
)

// virtualMachine returns the machine of a product UUID, and the identity there of a virtio disk
// that has the same serial number on every machine.
func virtualMachine(t *testing.T, uuid string) (string, disk.Identity) {
	t.Helper()
	sys := t.TempDir()
	for file, content := range map[string]string{
		"class/dmi/id/product_uuid": uuid, "devices/vda/serial": "data-0\n", "devices/vda/diskseq": "1\n", "devices/vda/size": "2048\n",
	} {
		path := filepath.Join(sys, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(sys, "dev/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(sys, "devices/vda"), filepath.Join(sys, "dev/block/253:0")); err != nil {
		t.Fatal(err)
	}
	machine, err := identity.ReadMachine(sys, filepath.Join(sys, "none"))
	if err != nil {
		t.Fatal(err)
	}
	found, err := identity.Host{Sys: sys, Machine: machine}.OfDevice("253:0")
	if err != nil {
		t.Fatal(err)
	}
	return machine, found
}

const (
	firstMachine = "6b8b4567-327b-23c6-643c-986966334873"
	thirdMachine = "2eb141f2-41b7-1efb-79e2-a9e3755a0ddf"
)

// on returns a disk with an identity.
func on(name string, identity disk.Identity) disk.Fact {
	f := fact(name)
	f.Identity = identity
	return f
}

// annotateReport annotates the report, as an administrator does.
func (e *env) annotateReport(key, value string) {
	e.t.Helper()
	e.reports.mu.Lock()
	defer e.reports.mu.Unlock()
	report := e.reports.known[node].DeepCopy()
	metav1.SetMetaDataAnnotation(&report.ObjectMeta, key, value)
	e.reports.put(report)
}

// TestRecreatedVirtualMachine: a virtual machine that has the name of another one, and a blank
// disk with the same serial number, has another disk.
func TestRecreatedVirtualMachine(t *testing.T) {
	before, old := virtualMachine(t, firstMachine)
	now, blank := virtualMachine(t, thirdMachine)
	if old == blank {
		t.Fatalf("two virtual machines have one disk, %s", old)
	}
	inBubble(t, func(e *env) {
		e.machine = before
		e.disks.put(on("disk1", old))
		e.startBound()
		e.marked("at first", "")
		e.stop()

		records, err := diskrecord.Open(t.TempDir(), "/proc")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = records.Close() }()
		kept := e.records
		defer func() { e.stop(); e.records = kept }()
		e.records, e.machine = records, now
		e.disks.put(on("disk1", blank))
		e.start()
		e.pass(time.Minute)
		e.expect("disk1", "Replaced: Replaced")
		e.marked("on the second machine", "Replaced")

		e.phase(corev1.VolumeReleased) // its claim was given up
		e.remove()
		e.pass(time.Minute)
		e.expect("disk1", "Pending") // published: nothing here sets the phase
		if pv := e.volume(); pv == nil || pv.Annotations[wellknown.DiskIdentityAnnotation] != string(blank) {
			t.Errorf("the blank disk is volume %v", pv)
		}
	})
}

// TestMainboard: after an exchange nothing is cleaned or published, and one annotation is
// sufficient for all disks, whatever their records.
func TestMainboard(t *testing.T) {
	identityOn := func(name, machine string) disk.Identity {
		return disk.Identity(fmt.Sprintf("serial:m:%s@%s", name, machine))
	}
	names := []string{"bound", "clean", "retained"}
	inBubble(t, func(e *env) {
		e.machine = "m1"
		e.disks.put(on("bound", identityOn("bound", "m1")))
		e.startBound()
		e.stop()
		generations := map[string]int64{"clean": 5, "retained": 7}
		for name, state := range map[string]disk.State{"clean": disk.Clean, "retained": disk.Retained} {
			record := disk.Record{
				Identity: identityOn(name, "m1"), Key: disk.Key{Class: "fast", Name: name}, HostPath: folder + "/" + name, Kind: disk.Mount,
				State: state, Generation: generations[name], Policy: disk.Retain, Volume: "", Cluster: cluster, Updated: time.Now(),
			}
			if err := e.records.Put(record); err != nil {
				t.Fatal(err)
			}
		}

		e.machine = "m2"
		for _, name := range names {
			e.disks.put(on(name, identityOn(name, "m2")))
			e.disks.write(identityOn(name, "m2"), "data of "+name)
		}
		e.start()
		e.pass(5 * time.Minute)
		e.expect("bound", "Unproven: IdentityUnproven")
		e.marked("before the accepted disk is read", "Unproven")
		e.expect("clean", "Skipped: IdentityUnproven")
		e.expect("retained", "Skipped: IdentityUnproven")
		reported := false
		for _, event := range e.events.take() {
			reported = reported || strings.Contains(event, "stowage.dev/same-machine=m1:m2")
		}
		if !reported {
			t.Error("no event names the annotation")
		}

		e.annotateReport(wellknown.SameMachineAnnotation, "m1:m3")
		e.pass(5 * time.Minute)
		e.expect("bound", "Unproven: IdentityUnproven")

		e.disks.write(identityOn("clean", "m2"), "")
		e.annotateReport(wellknown.SameMachineAnnotation, "m1:m2")
		e.pass(5 * time.Minute)
		e.expect("bound", "Bound")
		e.expect("clean", "Pending") // published: nothing here sets the phase
		e.expect("retained", "Retained: RetainedDirty")
		if got := e.disks.cleaned(); len(got) > 0 {
			t.Errorf("cleaned %q", got)
		}
		for _, record := range e.records.All() {
			if record.Identity.Machine() != "m2" {
				t.Errorf("the record of %s still exists", record.Identity)
			}
			if want, ok := generations[record.Key.Name]; ok && record.Generation != want {
				t.Errorf("the record of %s has generation %d, want %d", record.Identity, record.Generation, want)
			}
		}
		for _, pv := range e.api.volumes() {
			if pv.Annotations[wellknown.DiskAnnotation] != "" || !strings.HasSuffix(pv.Annotations[wellknown.DiskIdentityAnnotation], "@m2") {
				t.Errorf("volume %s has annotations %v", pv.Name, pv.Annotations)
			}
		}
	})
}

// TestDiskThatAStopMayDiscard is unproven after a restart if it has a claim, and published
// again if it has none.
func TestDiskThatAStopMayDiscard(t *testing.T) {
	for name, tc := range map[string]struct {
		phase      corev1.PersistentVolumePhase
		want, mark string
	}{
		"bound": {phase: corev1.VolumeBound, want: "Unproven: IdentityUnproven", mark: "Unproven"},
		"free":  {phase: corev1.VolumeAvailable, want: "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.machine = "m1"
				e.disks.put(on("disk1", "vendor:nvme.1ae0-1@m1/b1"))
				e.start()
				e.phase(corev1.VolumeAvailable)
				e.phase(tc.phase)
				e.stop()
				e.disks.put(on("disk1", "vendor:nvme.1ae0-1@m1/b2"))
				e.start()
				e.pass(time.Minute)
				e.expect("disk1", tc.want)
				e.marked("after a restart", tc.mark)
				if tc.phase != corev1.VolumeBound {
					return
				}
				e.change(func(pv *corev1.PersistentVolume) {
					pv.Annotations[wellknown.SameDiskAnnotation] = "vendor:nvme.1ae0-1@m1/b2"
				})
				e.expect("disk1", "Bound")
				e.marked("once the disk was read", "")
			})
		})
	}
}
