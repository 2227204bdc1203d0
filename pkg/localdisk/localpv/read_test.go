// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localpv

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/testing/builders"
)

func TestVolumeOf(t *testing.T) {
	t.Parallel()
	directories := map[string]string{"fast": "/mnt/fast/", "root": "/"}
	type slotOf struct {
		Key        disk.Key
		Configured bool
	}
	tests := map[string]struct {
		pv   *corev1.PersistentVolume
		want slotOf
	}{
		"an entry of its class's directory": {
			local("fast", "/mnt/fast/disk1"), slotOf{slot("fast", "disk1"), true},
		},
		"an entry with an unclean path": {
			local("fast", "/mnt//fast/./disk1/"), slotOf{slot("fast", "disk1"), true},
		},
		"below an entry": {
			local("fast", "/mnt/fast/disk1/data"), slotOf{slot("fast", "data"), false},
		},
		"the directory itself": {
			local("fast", "/mnt/fast"), slotOf{slot("fast", "fast"), false},
		},
		"a directory with the same prefix": {
			local("fast", "/mnt/fast-other/disk1"), slotOf{slot("fast", "disk1"), false},
		},
		"a class that is not configured any more": {
			local("slow", "/mnt/slow/disk1"), slotOf{slot("slow", "disk1"), false},
		},
		"the directory is the root": {
			local("root", "/disk1"), slotOf{slot("root", "disk1"), true},
		},
		"the class is in the old annotation": {
			builders.MakePV("old").BetaClass("fast").Source(at("/mnt/fast/disk1")).Obj(), slotOf{slot("fast", "disk1"), true},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, problem := VolumeOf(tc.pv, directories)
			if problem != nil {
				t.Fatal(problem)
			}
			if diff := cmp.Diff(tc.want, slotOf{v.Key, Configured(&v, directories)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVolumeOfAnAdoptedVolume(t *testing.T) {
	t.Parallel()
	got, problem := VolumeOf(local("fast", "/mnt/fast/disk1"), map[string]string{"fast": "/mnt/fast"})
	want := disk.Volume{
		Name: "pv", Key: slot("fast", "disk1"), HostPath: "/mnt/fast/disk1", FSType: "ext4", Mode: disk.Filesystem,
		Bytes: gibibyte, Generation: FirstGeneration, Phase: disk.PhaseAvailable, Policy: disk.Retain,
	}
	if problem != nil {
		t.Fatal(problem)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestVolumeOfPhases(t *testing.T) {
	t.Parallel()
	pv := mustVolume(t, request())
	now := metav1.Unix(1, 0)
	pv.UID, pv.ResourceVersion, pv.DeletionTimestamp = "uid", "7", &now
	pv.Spec.ClaimRef = &corev1.ObjectReference{Name: "claim"}
	pv.Status.Phase = corev1.VolumeReleased
	pv.Annotations[wellknown.SameDiskAnnotation] = "weak:b:2:3"
	got, problem := VolumeOf(pv, map[string]string{"fast": "/mnt/fast"})
	want := disk.Volume{
		Name: pv.Name, UID: "uid", ResourceVersion: "7", Key: slot("fast", "disk1"),
		HostPath: "/mnt/fast/disk1", FSType: "ext4", Mode: disk.Filesystem, Bytes: 10 * gibibyte, DiskBytes: 10*gibibyte + 4096,
		Identity: "fs:0a1b:/", Generation: 1, Phase: disk.PhaseReleased, Policy: disk.Delete,
		Claimed: true, Deleting: true, Finalized: true, Accepted: "weak:b:2:3",
	}
	if problem != nil {
		t.Fatal(problem)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestVolumeOfForeignVolumes(t *testing.T) {
	t.Parallel()
	for name, pv := range map[string]*corev1.PersistentVolume{
		"no source": {},
		"no path":   local("fast", ""),
	} {
		if _, problem := VolumeOf(pv, nil); problem == nil || problem.Reason != disk.ForeignVolume {
			t.Errorf("%s: %v, want reason %s", name, problem, disk.ForeignVolume)
		}
	}
}

func TestInvalidNumbers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "-5", "1e9", "99999999999999999999"} {
		pv := local("fast", "/mnt/fast/disk1")
		pv.Annotations = map[string]string{wellknown.GenerationAnnotation: text, wellknown.DiskBytesAnnotation: text}
		v, problem := VolumeOf(pv, nil)
		if problem != nil || v.Generation != FirstGeneration || v.DiskBytes != 0 {
			t.Errorf("%q: generation %d, %d bytes, %v", text, v.Generation, v.DiskBytes, problem)
		}
	}
}

func TestOwned(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*corev1.PersistentVolume)
		want   bool
	}{
		"as published":          {func(*corev1.PersistentVolume) {}, true},
		"no label":              {func(pv *corev1.PersistentVolume) { delete(pv.Labels, wellknown.NodeLabel) }, false},
		"label of another node": {func(pv *corev1.PersistentVolume) { pv.Labels[wellknown.NodeLabel] = NodeHash("node2") }, false},
		"name of another node":  {func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.NodeNameAnnotation] = "node2" }, false},
		"provisioned by another": {
			func(pv *corev1.PersistentVolume) {
				pv.Annotations[ProvisionedByAnnotation] = "local-volume-provisioner-node1"
			}, false,
		},
		"nothing on it": {func(pv *corev1.PersistentVolume) { pv.ObjectMeta = metav1.ObjectMeta{} }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pv := mustVolume(t, request())
			tc.change(pv)
			if got := Owned(pv, "node1"); got != tc.want {
				t.Errorf("Owned = %t, want %t", got, tc.want)
			}
		})
	}
}

// FuzzVolume: every request has either a problem or a volume that is read back as the disk it
// is of, and the request is unchanged.
func FuzzVolume(f *testing.F) {
	f.Add("node1", "host1", "fast", "/mnt/fast", "disk1", "wwn:1", int64(1<<34), int64(1), byte(0))
	f.Add("node1", "host1", "fast", "/mnt/fast", "disk1", "wwn:1", int64(1<<34), int64(1), byte(9))
	f.Add("node1", "host1", "fast", "/", "disk 1", "fs:a:/", int64(1), int64(1760000000), byte(3))
	f.Add("n", "h", "", "/mnt/..", "..", "x", int64(-1), int64(0), byte(7))
	f.Fuzz(func(t *testing.T, node, hostname, class, directory, name, identity string, bytes, generation int64, kind byte) {
		r := fuzzed(node, hostname, class, kind)
		r.Generation = generation
		r.Disk.Key = slot(class, name)
		r.Disk.HostPath, r.Disk.Bytes, r.Disk.Identity = strings.TrimSuffix(directory, "/")+"/"+name, bytes, disk.Identity(identity)
		before := fuzzed(node, hostname, class, kind)
		before.Generation, before.Disk = r.Generation, r.Disk

		pv, problem := Volume(r)
		if diff := cmp.Diff(before, r); diff != "" {
			t.Fatalf("the request has changed: %s", diff)
		}
		if problem != nil {
			return
		}
		directories := map[string]string{class: directory}
		v, problem := VolumeOf(pv, directories)
		if problem != nil {
			t.Fatal(problem)
		}
		want := disk.Volume{
			Name: pv.Name, Key: r.Disk.Key, HostPath: r.Disk.HostPath, Mode: r.Offer.Mode,
			Bytes: Capacity(bytes), DiskBytes: bytes, Identity: r.Disk.Identity, Generation: generation,
			Policy: disk.Delete, Finalized: true, FSType: "ext4", MountOptions: []string{hostname},
		}
		if r.Offer.Mode == disk.Filesystem && r.Offer.FSType != "" {
			want.FSType = r.Offer.FSType
		}
		if r.Disk.Kind == disk.Device {
			want.Link = LinkPath(class, pv.Name)
			if r.Offer.Mounted {
				want.Link = MountPath(class, pv.Name)
			}
		}
		if diff := cmp.Diff(want, v); diff != "" {
			t.Error(diff)
		}
		if !Owned(pv, node) || Owned(pv, node+"x") || Configured(&v, directories) != (directory != "") {
			t.Error("the volume is not that of its node and slot")
		}
	})
}

func fuzzed(node, hostname, class string, kind byte) Request {
	r := Request{
		Node:  Node{Name: node, Hostname: hostname, Labels: map[string]string{"zone": node}},
		Class: &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, MountOptions: []string{hostname}},
		Offer: Offer{Mode: disk.Filesystem, FSType: class, Labels: map[string]string{"a": "b"}},
	}
	r.Disk.Kind = disk.Mount
	if kind&1 != 0 {
		r.Disk.Kind = disk.Device
	}
	if kind&2 != 0 {
		r.Offer.Mode = disk.Block
	}
	if kind&4 != 0 {
		r.Offer.Naming = Reference
	}
	r.Offer.Mounted = kind&8 != 0
	return r
}

func local(class, path string) *corev1.PersistentVolume {
	return builders.MakePV("pv").Class(class).Source(at(path)).Obj()
}

func at(path string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
}

// TestExcludes: only a volume whose every term names other hostnames is certainly another
// node's.
func TestExcludes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  bool
	}{
		"another hostname":            {[]corev1.NodeSelectorTerm{builders.Term(builders.In(corev1.LabelHostname, "b"))}, true},
		"two others":                  {[]corev1.NodeSelectorTerm{builders.Term(builders.In(corev1.LabelHostname, "b")), builders.Term(builders.In(corev1.LabelHostname, "c"))}, true},
		"another one, and a zone":     {[]corev1.NodeSelectorTerm{builders.Term(builders.In(corev1.LabelTopologyZone, "z"), builders.In(corev1.LabelHostname, "b"))}, true},
		"this one":                    {[]corev1.NodeSelectorTerm{builders.Term(builders.In(corev1.LabelHostname, "a"))}, false},
		"this one and another":        {[]corev1.NodeSelectorTerm{builders.Term(builders.In(corev1.LabelHostname, "b", "a"))}, false},
		"this one by a second term":   {[]corev1.NodeSelectorTerm{builders.Term(builders.In(corev1.LabelHostname, "b")), builders.Term(builders.In(corev1.LabelHostname, "a"))}, false},
		"a zone, perhaps of this one": {[]corev1.NodeSelectorTerm{builders.Term(builders.In(corev1.LabelTopologyZone, "z"))}, false},
		"any except another one":      {[]corev1.NodeSelectorTerm{builders.Term(builders.Requirement(corev1.LabelHostname, corev1.NodeSelectorOpNotIn, "b"))}, false},
		"no terms":                    {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pv := builders.MakePV("v").Affinity(tc.terms...).Obj()
			if got := Excludes(pv, "a"); got != tc.want {
				t.Errorf("Excludes = %t, want %t", got, tc.want)
			}
		})
	}
	if Excludes(builders.MakePV("v").Obj(), "a") {
		t.Error("a volume without node affinity excludes a node")
	}
}
