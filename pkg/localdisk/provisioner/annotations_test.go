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

// virtualMachine is the machine of a product UUID, and the identity that sysfs there gives a
// virtio disk of the same serial number on every machine.
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

// on is a disk that shows an identity.
func on(name string, identity disk.Identity) disk.Fact {
	f := fact(name)
	f.Identity = identity
	return f
}

// annotateReport is an administrator's kubectl annotate.
func (e *env) annotateReport(key, value string) {
	e.t.Helper()
	e.reports.mu.Lock()
	defer e.reports.mu.Unlock()
	report := e.reports.known[node].DeepCopy()
	metav1.SetMetaDataAnnotation(&report.ObjectMeta, key, value)
	e.reports.put(report)
}

// TestMachineMadeAgainUnderItsName: a virtual machine with the name, and a blank disk with the
// serial number, of another one has another disk.
func TestRecreatedVirtualMachine(t *testing.T) {
	before, old := virtualMachine(t, firstMachine)
	now, blank := virtualMachine(t, thirdMachine)
	if old == blank {
		t.Fatalf("two virtual machines have one disk, %s", old)
	}
	inBubble(t, func(w *env) {
		w.machine = before
		w.disks.put(on("disk1", old))
		w.startBound()
		w.marked("at first", "")
		w.stop()

		records, err := diskrecord.Open(t.TempDir(), "/proc")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = records.Close() }()
		kept := w.records
		defer func() { w.stop(); w.records = kept }()
		w.records, w.machine = records, now
		w.disks.put(on("disk1", blank))
		w.start()
		w.pass(time.Minute)
		w.expect("disk1", "Replaced: Replaced")
		w.marked("on the second machine", "Replaced")

		w.phase(corev1.VolumeReleased) // its claim was given up
		w.remove()
		w.pass(time.Minute)
		w.expect("disk1", "Pending") // published: nothing here sets the phase
		if pv := w.volume(); pv == nil || pv.Annotations[wellknown.DiskIdentityAnnotation] != string(blank) {
			t.Errorf("the blank disk is volume %v", pv)
		}
	})
}

// TestMainboard: after an exchange nothing is cleaned or published, and one word of an
// administrator is enough for all disks, whatever the node remembers of them.
func TestMainboard(t *testing.T) {
	identityOn := func(name, machine string) disk.Identity {
		return disk.Identity(fmt.Sprintf("serial:m:%s@%s", name, machine))
	}
	names := []string{"bound", "clean", "retained"}
	inBubble(t, func(w *env) {
		w.machine = "m1"
		w.disks.put(on("bound", identityOn("bound", "m1")))
		w.startBound()
		w.stop()
		generations := map[string]int64{"clean": 5, "retained": 7}
		for name, state := range map[string]disk.State{"clean": disk.Clean, "retained": disk.Retained} {
			record := disk.Record{
				Identity: identityOn(name, "m1"), Key: disk.Key{Class: "fast", Name: name}, HostPath: folder + "/" + name, Kind: disk.Mount,
				State: state, Generation: generations[name], Policy: disk.Retain, Volume: "", Cluster: cluster, Updated: time.Now(),
			}
			if err := w.records.Put(record); err != nil {
				t.Fatal(err)
			}
		}

		w.machine = "m2"
		for _, name := range names {
			w.disks.put(on(name, identityOn(name, "m2")))
			w.disks.write(identityOn(name, "m2"), "data of "+name)
		}
		w.start()
		w.pass(5 * time.Minute)
		w.expect("bound", "Unproven: IdentityUnproven")
		w.marked("before the accepted disk is read", "Unproven")
		w.expect("clean", "Skipped: IdentityUnproven")
		w.expect("retained", "Skipped: IdentityUnproven")
		told := false
		for _, event := range w.events.take() {
			told = told || strings.Contains(event, "stowage.dev/same-machine=m1:m2")
		}
		if !told {
			t.Error("no event has the annotation to write")
		}

		w.annotateReport(wellknown.SameMachineAnnotation, "m1:m3")
		w.pass(5 * time.Minute)
		w.expect("bound", "Unproven: IdentityUnproven")

		w.disks.write(identityOn("clean", "m2"), "")
		w.annotateReport(wellknown.SameMachineAnnotation, "m1:m2")
		w.pass(5 * time.Minute)
		w.expect("bound", "Bound")
		w.expect("clean", "Pending") // published: nothing here sets the phase
		w.expect("retained", "Retained: RetainedDirty")
		if got := w.disks.cleaned(); len(got) > 0 {
			t.Errorf("cleaned %q", got)
		}
		for _, record := range w.records.All() {
			if record.Identity.Machine() != "m2" {
				t.Errorf("there is still a record of %s", record.Identity)
			}
			if want, ok := generations[record.Key.Name]; ok && record.Generation != want {
				t.Errorf("the record of %s has generation %d, want %d", record.Identity, record.Generation, want)
			}
		}
		for _, pv := range w.api.volumes() {
			if pv.Annotations[wellknown.DiskAnnotation] != "" || !strings.HasSuffix(pv.Annotations[wellknown.DiskIdentityAnnotation], "@m2") {
				t.Errorf("volume %s says %v", pv.Name, pv.Annotations)
			}
		}
	})
}

// TestDiskThatAStopMayDiscard is unproven after a restart if a claim has it, and offered
// again if it had no claim.
func TestDiskThatAStopMayDiscard(t *testing.T) {
	for name, tc := range map[string]struct {
		phase      corev1.PersistentVolumePhase
		want, mark string
	}{
		"bound": {phase: corev1.VolumeBound, want: "Unproven: IdentityUnproven", mark: "Unproven"},
		"free":  {phase: corev1.VolumeAvailable, want: "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				w.machine = "m1"
				w.disks.put(on("disk1", "vendor:nvme.1ae0-1@m1/b1"))
				w.start()
				w.phase(corev1.VolumeAvailable)
				w.phase(tc.phase)
				w.stop()
				w.disks.put(on("disk1", "vendor:nvme.1ae0-1@m1/b2"))
				w.start()
				w.pass(time.Minute)
				w.expect("disk1", tc.want)
				w.marked("after a restart", tc.mark)
				if tc.phase != corev1.VolumeBound {
					return
				}
				w.change(func(pv *corev1.PersistentVolume) {
					pv.Annotations[wellknown.SameDiskAnnotation] = "vendor:nvme.1ae0-1@m1/b2"
				})
				w.expect("disk1", "Bound")
				w.marked("once the disk was read", "")
			})
		})
	}
}
