// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover_test

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// TestAdopt: volumes of the reference go over to the provisioner, with their claims and
// data, and are reclaimed by it from then on.
func TestAdopt(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	n := node.New(t, e, "a")
	for _, name := range []string{"free", "taken", "released", "stranger"} {
		n.Mount(name, "48M")
	}
	device := n.Device("raw", "48M")
	free := reference(n, n.Files, "free", withUID)
	taken := bind(e, reference(n, n.Files, "taken", byName))
	released := bind(e, reference(n, n.Files, "released", withUID))
	raw := bind(e, reference(n, n.Blocks, "raw", byName))
	stranger := create(e, inReferenceForm(n, n.Files, "stranger").Name(e.Name("stranger")).ProvisionedBy("an-administrator").Obj())
	elsewhere := create(e, e.PV("elsewhere").Class(n.Files).Hostname(n.Name).Obj())
	n.Write("taken", "data", "of a claim")
	n.Write("released", "secret", "of a deleted claim")
	write(t, device, "a secret")
	released, raw = release(e, released), release(e, raw)
	all := []*corev1.PersistentVolume{free, taken, released, raw, stranger, elsewhere}
	before := versions(e, all...)
	adopt := []string{"adopt", "--config=" + n.Path("config"), "--node=" + n.Name}
	confirm := slices.Concat(adopt, []string{"--confirm"})

	remove := runReference(n)
	fails(e, confirm, "the reference still runs", "0 to adopt, 0 adopted already, 4 left alone, 1 of others")
	remove()
	succeeds(e, adopt, "4 to adopt, 0 adopted already, 0 left alone, 1 of others", "Nothing was changed")
	if diff := cmp.Diff(before, versions(e, all...)); diff != "" {
		t.Fatalf("volumes have changed:\n%s", diff)
	}

	succeeds(e, confirm, "Adopted 4.")
	adopted := versions(e, all...)
	for _, other := range []*corev1.PersistentVolume{stranger, elsewhere} {
		if adopted[other.Name] != before[other.Name] {
			t.Errorf("volume %s, which is not the reference's, was changed", other.Name)
		}
	}
	succeeds(e, confirm, "0 to adopt, 4 adopted already", "Adopted 0.")
	if diff := cmp.Diff(adopted, versions(e, all...)); diff != "" {
		t.Fatalf("volumes were adopted twice:\n%s", diff)
	}
	if got := live(e, free).Annotations[wellknown.AdoptedFromAnnotation]; got != free.Annotations[localpv.ProvisionedByAnnotation] {
		t.Errorf("adopted from %q", got)
	}

	n.Start()
	n.WaitRepublished(n.Files, "released", released)
	n.WaitRepublished(n.Blocks, "raw", raw)
	if names := n.Names("released"); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
	if text := read(t, device); text != "\x00\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("a device that is Available begins with %q", text)
	}
	for _, kept := range []*corev1.PersistentVolume{free, taken} {
		wait(e, kept.Name, "known by its disk", func(pv *corev1.PersistentVolume) bool {
			return pv != nil && pv.UID == kept.UID && pv.Annotations[wellknown.DiskIdentityAnnotation] != ""
		})
	}
	if pv := live(e, taken); pv.Status.Phase != corev1.VolumeBound || pv.Spec.ClaimRef.Name != taken.Name {
		t.Errorf("the volume is %s, with claim %v", pv.Status.Phase, pv.Spec.ClaimRef)
	}
	if names := n.Names("taken"); len(names) != 1 {
		t.Errorf("a volume with a claim holds %q", names)
	}
	n.Release(taken)
	n.WaitRepublished(n.Files, "taken", taken)
	if names := n.Names("taken"); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
}

// TestNotAdopted: the provisioner does not touch the disks of volumes that were not
// adopted, with any setting for existing data.
func TestNotAdopted(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	n := node.New(t, e, "a")
	n.Set(n.Files, "existingData", "Clean")
	for _, name := range []string{"empty", "full", "nobodys"} {
		n.Mount(name, "48M")
	}
	reference(n, n.Files, "empty", withUID)
	full := bind(e, reference(n, n.Files, "full", withUID))
	n.Write("full", "data", "of a claim")
	n.Write("nobodys", "data", "of nobody")
	n.Start()
	n.WaitPhase(n.Files, "nobodys", corev1.VolumeAvailable)
	if names := n.Names("nobodys"); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
	n.WaitEntry(n.Files, "empty", stowage.EntrySkipped, string(disk.ForeignVolume))
	n.WaitEntry(n.Files, "full", stowage.EntrySkipped, string(disk.ForeignVolume))

	succeeds(e, []string{"adopt", "--config=" + n.Path("config"), "--node=" + n.Name, "--confirm"}, "Adopted 2.")
	n.WaitPhase(n.Files, "empty", corev1.VolumeAvailable)
	n.WaitEntry(n.Files, "full", stowage.EntryBound, "")
	if names := n.Names("full"); len(names) != 1 {
		t.Errorf("a volume with a claim holds %q", names)
	}
	if pv := live(e, full); pv.UID != full.UID || pv.Status.Phase != corev1.VolumeBound {
		t.Errorf("the volume is %s", pv.Status.Phase)
	}
}

// write writes to a device, as a pod would.
func write(t *testing.T, device, text string) {
	t.Helper()
	file, err := os.OpenFile(device, os.O_WRONLY|os.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// read reads the first eight bytes of a device.
func read(t *testing.T, device string) string {
	t.Helper()
	file, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text := make([]byte, 8)
	if _, err := file.Read(text); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
