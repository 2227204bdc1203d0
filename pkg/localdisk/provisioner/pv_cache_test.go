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

// byHand returns a volume as an administrator may create it, with the provisioner's labels and
// annotations.
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

// TestOddVolumes: unusual volumes do not stop the provisioner, and no disk is published twice.
func TestOddVolumes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(pv *corev1.PersistentVolume)
		// volumes is how many there are in the end: the unusual one, and one of the disk unless
		// that is the same.
		volumes int
	}{
		"one that the provisioner could have created": {func(*corev1.PersistentVolume) {}, 1},
		"the path has doubled slashes":                {func(pv *corev1.PersistentVolume) { pv.Spec.Local.Path = "/mnt//fast/disk1/" }, 1},
		"no local path":                               {func(pv *corev1.PersistentVolume) { pv.Spec.Local = nil }, 2},
		"an empty path":                               {func(pv *corev1.PersistentVolume) { pv.Spec.Local.Path = "" }, 2},
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
		"no capacity and no mode":     {func(pv *corev1.PersistentVolume) { pv.Spec.Capacity, pv.Spec.VolumeMode = nil, nil }, 1},
		"its class is not configured": {func(pv *corev1.PersistentVolume) { pv.Spec.StorageClassName = "gone" }, 1},
		"the finalizer twice": {func(pv *corev1.PersistentVolume) {
			pv.Finalizers = append(pv.Finalizers, wellknown.LocalVolumeFinalizer)
		}, 1},
		"the finalizer is missing": {func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }, 1},
		"an unknown identity": {func(pv *corev1.PersistentVolume) {
			pv.Annotations[wellknown.DiskIdentityAnnotation], pv.Spec.ClaimRef = "\x00 ::", &corev1.ObjectReference{}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				pv := byHand("odd", folder+"/disk1")
				test.change(pv)
				if err := e.api.Tracker().Add(pv); err != nil {
					e.t.Fatal(err)
				}
				e.disks.add("disk1", "")
				e.start()
				e.pass(time.Hour)
				if got := e.api.volumes(); len(got) != test.volumes {
					e.t.Errorf("%d volumes, want %d: %s", len(got), test.volumes, e.reason("disk1"))
				}
				e.disks.add("disk2", "") // and others are published as ever
				e.look()
				e.expect("disk2", "Pending")
				if err := e.provisioner.Healthy(); err != nil {
					e.t.Error(err)
				}
			})
		})
	}
}

// TestSecondVolumeOfAPath: a second volume of a disk is created by hand.
func TestSecondVolumeOfAPath(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.startBound()
		e.disks.write(identity, "of the first user")
		if err := e.api.Tracker().Add(byHand("second", folder+"/disk1")); err != nil {
			t.Fatal(err)
		}
		e.pass(time.Hour)
		if got := e.disks.cleaned(); len(got) > 0 {
			t.Errorf("cleaned %q, which a claim uses", got)
		}
		if err := e.provisioner.Healthy(); err != nil {
			t.Error(err)
		}
	})
}

// TestRemovedMarks: the disk of a volume without the provisioner's labels and annotations is
// neither published nor cleaned, until they are restored.
func TestRemovedMarks(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.startBound()
		e.disks.write(identity, "of the first user")
		e.change(func(pv *corev1.PersistentVolume) { delete(pv.Annotations, wellknown.NodeNameAnnotation) })
		e.pass(24 * time.Hour)
		e.expect("disk1", "Skipped: ForeignVolume")
		if e.volume() == nil || e.disks.read(identity) == "" {
			t.Errorf("the volume is %v, and the data %q", e.volume(), e.disks.read(identity))
		}
		e.change(func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.NodeNameAnnotation] = node })
		e.pass(5 * time.Minute)
		e.expect("disk1", "Bound")
	})
}

// TestPolicyChangedBeforeClean: Retain is effective if it is set before the first byte is
// changed.
func TestPolicyChangedBeforeClean(t *testing.T) {
	inBubble(t, func(e *env) {
		e.config.MaxCleaning = new(int32(1))
		identity := e.disks.add("disk1", "")
		e.startBound()
		e.disks.write(identity, "of the first user")
		e.disks.fail(identity, errNoAnswer) // who uses it cannot be found out
		e.phase(corev1.VolumeReleased)
		e.pass(time.Hour)
		e.change(func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		})
		e.disks.fail(identity, nil)
		e.pass(time.Hour)
		e.expect("disk1", "Released")
		if data := e.disks.read(identity); data == "" {
			t.Error("the data is gone")
		}
	})
}

// TestVolumesOfOtherNodes: a volume has the path of the disk, and the name that the reference
// implementation would use. One of another node's provisioner does not prevent publication.
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
		// The node's hostname may have changed.
		"of the reference, on another hostname": {map[string]string{localpv.ProvisionedByAnnotation: "local-volume-provisioner-" + node}, []string{other}, "Skipped: ForeignVolume"},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.disks.add("disk1", "")
				pv := byHand(name, folder+"/disk1")
				pv.Labels, pv.Annotations = nil, test.by
				if test.on != nil {
					pv.Spec.NodeAffinity = builders.MakePV("like").Hostname(test.on...).Obj().Spec.NodeAffinity
				}
				if err := e.api.Tracker().Add(pv); err != nil {
					t.Fatal(err)
				}
				e.start()
				e.pass(time.Minute)
				e.expect("disk1", test.want)
			})
		})
	}
}
