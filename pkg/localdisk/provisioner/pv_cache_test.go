// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/builders"
)

// byHand is a volume that was written by hand, with all marks of the node's agent.
func byHand(name, path string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: "uid-" + "x", ResourceVersion: "7", Finalizers: []string{wellknown.LocalVolumeFinalizer},
			Labels:      map[string]string{wellknown.NodeLabel: localpv.NodeHash(node)},
			Annotations: map[string]string{wellknown.NodeNameAnnotation: node, localpv.ProvisionedByAnnotation: localpv.ProvisionedBy(node)},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			StorageClassName:              "fast",
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

// TestOddVolumes: whatever administrators write, the agent goes on, and offers no disk
// twice.
func TestOddVolumes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(pv *corev1.PersistentVolume)
		// volumes is how many there are in the end: the odd one, and that of the disk
		// unless the odd one is that.
		volumes int
	}{
		"one that the agent could have made": {func(*corev1.PersistentVolume) {}, 1},
		"the path has slashes too many":      {func(pv *corev1.PersistentVolume) { pv.Spec.Local.Path = "/mnt//fast/disk1/" }, 1},
		"no local path":                      {func(pv *corev1.PersistentVolume) { pv.Spec.Local = nil }, 2},
		"an empty path":                      {func(pv *corev1.PersistentVolume) { pv.Spec.Local.Path = "" }, 2},
		"another path": {func(pv *corev1.PersistentVolume) {
			pv.Spec.Local.Path = "/home"
			pv.Spec.ClaimRef = &corev1.ObjectReference{}
		}, 2},
		"not owned, by the label only": {func(pv *corev1.PersistentVolume) {
			pv.Spec.Local.Path = "/home"
			delete(pv.Annotations, localpv.ProvisionedByAnnotation)
		}, 2},
		"annotations that are no numbers": {func(pv *corev1.PersistentVolume) {
			pv.Annotations[wellknown.GenerationAnnotation], pv.Annotations[wellknown.DiskBytesAnnotation] = "-9223372036854775809", "x"
		}, 1},
		"the highest generation": {func(pv *corev1.PersistentVolume) {
			pv.Annotations[wellknown.GenerationAnnotation] = "9223372036854775807"
		}, 1},
		"no capacity and no mode": {func(pv *corev1.PersistentVolume) { pv.Spec.Capacity, pv.Spec.VolumeMode = nil, nil }, 1},
		"its class is not ours":   {func(pv *corev1.PersistentVolume) { pv.Spec.StorageClassName = "gone" }, 1},
		"our finalizer twice": {func(pv *corev1.PersistentVolume) {
			pv.Finalizers = append(pv.Finalizers, wellknown.LocalVolumeFinalizer)
		}, 1},
		"our finalizer is missing": {func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }, 1},
		"an identity from nowhere": {func(pv *corev1.PersistentVolume) {
			pv.Annotations[wellknown.DiskIdentityAnnotation], pv.Spec.ClaimRef = "\x00 ::", &corev1.ObjectReference{}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				pv := byHand("odd", folder+"/disk1")
				test.change(pv)
				if err := w.api.Tracker().Add(pv); err != nil {
					w.t.Fatal(err)
				}
				w.disks.add("disk1", "")
				w.start()
				w.pass(time.Hour)
				if got := w.api.volumes(); len(got) != test.volumes {
					w.t.Errorf("%d volumes, want %d: %s", len(got), test.volumes, w.reason("disk1"))
				}
				w.disks.add("disk2", "") // and others are published as ever
				w.look()
				w.expect("disk2", "Pending")
				if err := w.provisioner.Healthy(); err != nil {
					w.t.Error(err)
				}
			})
		})
	}
}

// TestSecondVolumeOfAPath: another volume is made by hand of a disk that has one.
func TestSecondVolumeOfAPath(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.startBound()
		w.disks.write(identity, "of the first user")
		if err := w.api.Tracker().Add(byHand("second", folder+"/disk1")); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		if got := w.disks.cleaned(); len(got) > 0 {
			t.Errorf("cleaned %q, which a claim uses", got)
		}
		if err := w.provisioner.Healthy(); err != nil {
			t.Error(err)
		}
	})
}

// TestMarksThatSomebodyTakes: a volume that has lost the agent's marks keeps its disk
// from being offered or cleaned, and is the agent's again when they are back.
func TestRemovedMarks(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.startBound()
		w.disks.write(identity, "of the first user")
		w.change(func(pv *corev1.PersistentVolume) { delete(pv.Annotations, wellknown.NodeNameAnnotation) })
		w.pass(24 * time.Hour)
		w.expect("disk1", "Skipped: ForeignVolume")
		if w.volume() == nil || w.disks.read(identity) == "" {
			t.Errorf("the volume is %v, and the data %q", w.volume(), w.disks.read(identity))
		}
		w.change(func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.NodeNameAnnotation] = node })
		w.pass(5 * time.Minute)
		w.expect("disk1", "Bound")
	})
}

// TestPolicyThatChangesMeanwhile: Retain, said before the first byte is changed, holds.
func TestPolicyChangedBeforeClean(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.MaxCleaning = 1
		identity := w.disks.add("disk1", "")
		w.startBound()
		w.disks.write(identity, "of the first user")
		w.disks.fail(identity, errNoAnswer) // who uses it cannot be found out
		w.phase(corev1.VolumeReleased)
		w.pass(time.Hour)
		w.change(func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		})
		w.disks.fail(identity, nil)
		w.pass(time.Hour)
		w.expect("disk1", "Released")
		if data := w.disks.read(identity); data == "" {
			t.Error("the data is gone")
		}
	})
}

// TestVolumesOfOtherNodes: a volume with the name that the reference would give to that of the
// disk, and the disk's path. One of another node's provisioner is no reason not to publish it.
func TestVolumesOfOtherNodes(t *testing.T) {
	const other = "n2"
	name := localpv.ReferenceName(node, disk.Key{Class: "fast", Name: "disk1"})
	for what, test := range map[string]struct {
		by   map[string]string
		on   []string
		want string
	}{
		"of another node's provisioner":  {map[string]string{wellknown.NodeNameAnnotation: other, localpv.ProvisionedByAnnotation: localpv.ProvisionedBy(other)}, []string{other}, "Pending"},
		"of another node's, on this one": {map[string]string{wellknown.NodeNameAnnotation: other, localpv.ProvisionedByAnnotation: localpv.ProvisionedBy(other)}, []string{other, node}, "Skipped: ForeignVolume"},
		"of another node's, anywhere":    {map[string]string{wellknown.NodeNameAnnotation: other, localpv.ProvisionedByAnnotation: localpv.ProvisionedBy(other)}, nil, "Skipped: ForeignVolume"},
		"of the reference":               {map[string]string{localpv.ProvisionedByAnnotation: "local-volume-provisioner-" + node}, []string{node}, "Skipped: ForeignVolume"},
		// The node's hostname may have changed since.
		"of the reference, on another hostname": {map[string]string{localpv.ProvisionedByAnnotation: "local-volume-provisioner-" + node}, []string{other}, "Skipped: ForeignVolume"},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(w *env) {
				w.disks.add("disk1", "")
				pv := byHand(name, folder+"/disk1")
				pv.Labels, pv.Annotations = nil, test.by
				if test.on != nil {
					pv.Spec.NodeAffinity = builders.MakePV("like").Hostname(test.on...).Obj().Spec.NodeAffinity
				}
				if err := w.api.Tracker().Add(pv); err != nil {
					t.Fatal(err)
				}
				w.start()
				w.pass(time.Minute)
				w.expect("disk1", test.want)
			})
		})
	}
}
