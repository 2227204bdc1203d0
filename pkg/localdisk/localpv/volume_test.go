// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localpv

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// request returns a request for the volume of a mounted disk of a little over 10 GiB.
func request() Request {
	return Request{
		Node:  Node{Name: "node1", Hostname: "host1"},
		Class: storageClass("fast"),
		Disk: disk.Fact{
			Key:      disk.Key{Class: "fast", Name: "disk1"},
			HostPath: "/mnt/fast/disk1",
			Kind:     disk.Mount,
			Identity: "fs:0a1b:/",
			Bytes:    10*gibibyte + 4096,
		},
		Offer:      Offer{Mode: disk.Filesystem},
		Generation: 1,
	}
}

func storageClass(name string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func mustVolume(t *testing.T, r Request) *corev1.PersistentVolume {
	t.Helper()
	pv, problem := Volume(r)
	if problem != nil {
		t.Fatal(problem)
	}
	return pv
}

func TestVolumeOfAFileSystem(t *testing.T) {
	t.Parallel()
	mode := corev1.PersistentVolumeFilesystem
	want := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:   Name("node1", disk.Key{Class: "fast", Name: "disk1"}, 1),
			Labels: map[string]string{"stowage.dev/node": NodeHash("node1"), "stowage.dev/node-name": "node1"},
			Annotations: map[string]string{
				"stowage.dev/node-name":           "node1",
				"pv.kubernetes.io/provisioned-by": "stowage.dev/local-node1",
				"stowage.dev/disk-identity":       "fs:0a1b:/",
				"stowage.dev/disk-bytes":          "10737422336",
				"stowage.dev/generation":          "1",
			},
			Finalizers: []string{"stowage.dev/local-volume"},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{"storage": resource.MustParse("10Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              "fast",
			VolumeMode:                    &mode,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/fast/disk1"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"host1"},
				}}}},
			}},
		},
	}
	if diff := cmp.Diff(want, mustVolume(t, request())); diff != "" {
		t.Error(diff)
	}
}

// TestConfiguredStorageClass: PVs are created with the configured StorageClass.
func TestConfiguredStorageClass(t *testing.T) {
	t.Parallel()
	retain := corev1.PersistentVolumeReclaimRetain
	r := request()
	r.Class = storageClass("slow")
	r.Class.ReclaimPolicy = &retain
	r.Class.MountOptions = []string{"noatime", "discard"}
	r.Disk.Class = "slow"
	spec := mustVolume(t, r).Spec
	if spec.StorageClassName != "slow" {
		t.Errorf("storageClassName = %q, want slow", spec.StorageClassName)
	}
	if spec.PersistentVolumeReclaimPolicy != retain {
		t.Errorf("persistentVolumeReclaimPolicy = %q, want that of the class", spec.PersistentVolumeReclaimPolicy)
	}
	if diff := cmp.Diff([]string{"noatime", "discard"}, spec.MountOptions); diff != "" {
		t.Errorf("mountOptions are not those of the class: %s", diff)
	}
}

func TestOffer(t *testing.T) {
	t.Parallel()
	many := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadOnlyMany}
	tests := map[string]struct {
		change func(*Request)
		got    func(*corev1.PersistentVolume) any
		want   any
	}{
		"a device for Filesystem is formatted as the class says": {
			change: func(r *Request) { r.Disk.Kind, r.Offer.FSType = disk.Device, "xfs" },
			got:    func(pv *corev1.PersistentVolume) any { return *pv.Spec.Local.FSType },
			want:   "xfs",
		},
		"a device for Block is not formatted": {
			change: func(r *Request) { r.Disk.Kind, r.Offer.FSType, r.Offer.Mode = disk.Device, "xfs", disk.Block },
			got:    func(pv *corev1.PersistentVolume) any { return pv.Spec.Local.FSType },
			want:   (*string)(nil),
		},
		"the path of a device is the volume's link": {
			change: func(r *Request) { r.Disk.Kind = disk.Device },
			got:    func(pv *corev1.PersistentVolume) any { return pv.Spec.Local.Path },
			want:   "/dev/stowage/disks/fast/" + Name("node1", slot("fast", "disk1"), 1),
		},
		"the slot of a device is in an annotation": {
			change: func(r *Request) { r.Disk.Kind, r.Offer.Mode = disk.Device, disk.Block },
			got: func(pv *corev1.PersistentVolume) any {
				return []string{pv.Annotations[wellknown.DiskPathAnnotation], PathOf(pv)}
			},
			want: []string{"/mnt/fast/disk1", "/mnt/fast/disk1"},
		},
		"a file system has its own path, and no annotation of it": {
			change: func(*Request) {},
			got: func(pv *corev1.PersistentVolume) any {
				return []string{pv.Annotations[wellknown.DiskPathAnnotation], PathOf(pv)}
			},
			want: []string{"", "/mnt/fast/disk1"},
		},
		"the link of another volume is no link": {
			change: func(r *Request) { r.Disk.Kind = disk.Device },
			got:    func(pv *corev1.PersistentVolume) any { pv.Name = "other"; return PathOf(pv) },
			want:   "/dev/stowage/disks/fast/" + Name("node1", slot("fast", "disk1"), 1),
		},
		"a device for Block says so": {
			change: func(r *Request) { r.Disk.Kind, r.Offer.Mode = disk.Device, disk.Block },
			got:    func(pv *corev1.PersistentVolume) any { return *pv.Spec.VolumeMode },
			want:   corev1.PersistentVolumeBlock,
		},
		"access modes are those of the class": {
			change: func(r *Request) { r.Offer.AccessModes = many },
			got:    func(pv *corev1.PersistentVolume) any { return pv.Spec.AccessModes },
			want:   many,
		},
		"labels: Stowage's precede the configuration's, which precede the node's": {
			change: func(r *Request) {
				r.Node.Labels = map[string]string{"zone": "a", "rack": "7", wellknown.NodeLabel: "x", wellknown.NodeNameLabel: "x"}
				r.Offer.Labels = map[string]string{"zone": "b", wellknown.NodeLabel: "y"}
			},
			got:  func(pv *corev1.PersistentVolume) any { return pv.Labels },
			want: map[string]string{"zone": "b", "rack": "7", wellknown.NodeLabel: NodeHash("node1"), wellknown.NodeNameLabel: "node1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request()
			tc.change(&r)
			if diff := cmp.Diff(tc.want, tc.got(mustVolume(t, r))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ bytes, want int64 }{
		"nothing":                   {0, 0},
		"a few bytes stay":          {4097, 4097},
		"just below 10 MiB stays":   {10*mebibyte - 1, 10*mebibyte - 1},
		"10 MiB and a bit":          {10*mebibyte + 1, 10 * mebibyte},
		"just below 10 GiB, in MiB": {10*gibibyte - 1, 10*gibibyte - mebibyte},
		"10 GiB":                    {10 * gibibyte, 10 * gibibyte},
		"just below 11 GiB":         {11*gibibyte - 1, 10 * gibibyte},
		"the largest there can be":  {1<<63 - 1, (1<<33 - 1) * gibibyte},
		"a negative number stays":   {-1, -1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Capacity(tc.bytes); got != tc.want {
				t.Errorf("Capacity(%d) = %d, want %d", tc.bytes, got, tc.want)
			}
		})
	}
}

func TestVolumeProblems(t *testing.T) {
	t.Parallel()
	recycle := corev1.PersistentVolumeReclaimRecycle
	tests := map[string]struct {
		change func(*Request)
		want   disk.Reason
	}{
		"the disk has a problem": {
			func(r *Request) { r.Disk.Problem = disk.Problemf(disk.InUse, "swap") }, disk.InUse,
		},
		"no StorageClass":              {func(r *Request) { r.Class = nil }, disk.ClassMissing},
		"the StorageClass of others":   {func(r *Request) { r.Class = storageClass("slow") }, disk.ClassMissing},
		"the StorageClass recycles":    {func(r *Request) { r.Class.ReclaimPolicy = &recycle }, disk.InvalidClass},
		"no hostname":                  {func(r *Request) { r.Node.Hostname = "" }, disk.NotConfigured},
		"no generation":                {func(r *Request) { r.Generation = 0 }, disk.BadRecord},
		"no bytes":                     {func(r *Request) { r.Disk.Bytes = 0 }, disk.NoCapacity},
		"no identity":                  {func(r *Request) { r.Disk.Identity = "" }, disk.IdentityUnproven},
		"no volume mode":               {func(r *Request) { r.Offer.Mode = "" }, disk.WrongVolumeMode},
		"a file system as a device":    {func(r *Request) { r.Offer.Mode = disk.Block }, disk.WrongVolumeMode},
		"no path":                      {func(r *Request) { r.Disk.HostPath = "" }, disk.OutsideDirectory},
		"a path that leads upwards":    {func(r *Request) { r.Disk.HostPath = "/mnt/../disk1" }, disk.OutsideDirectory},
		"a path of another entry":      {func(r *Request) { r.Disk.HostPath = "/mnt/fast/disk2" }, disk.OutsideDirectory},
		"the root of the file system":  {func(r *Request) { r.Disk.HostPath, r.Disk.Name = "/", "/" }, disk.OutsideDirectory},
		"a name that JSON cannot hold": {func(r *Request) { r.Disk.HostPath, r.Disk.Name = "/mnt/\xff", "\xff" }, disk.Unreadable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request()
			tc.change(&r)
			pv, problem := Volume(r)
			if problem == nil || problem.Reason != tc.want {
				t.Fatalf("Volume: %v, want a problem of reason %s", problem, tc.want)
			}
			if pv != nil {
				t.Error("there is a volume and a problem")
			}
			if problem.Message == "" {
				t.Error("the problem has no message")
			}
		})
	}
}
