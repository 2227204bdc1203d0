// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/builders"
)

var errNoAnswer = errors.New("read tcp: connection reset by peer")

// TestLostAnswers: a disk is published once, also if answers are lost.
func TestLostAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		late  bool // the request was carried out
		lasts time.Duration
	}{
		"the request was carried out":                    {errNoAnswer, true, 5 * time.Second},
		"the request was lost":                           {errNoAnswer, false, 5 * time.Second},
		"a timeout, and the request was carried out":     {apierrors.NewTimeoutError("slow", 1), true, 5 * time.Second},
		"too many requests":                              {apierrors.NewTooManyRequestsError("wait"), false, 10 * time.Second},
		"an admission webhook that fails for an hour":    {apierrors.NewInternalError(errors.New("failed calling webhook")), false, time.Hour},
		"no answers for an hour, and it was carried out": {errNoAnswer, true, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				begin, carriedOut := time.Now(), false
				e.api.refuse(func(verb, resource, _ string) (error, bool) {
					if verb != "create" || resource != "persistentvolumes" || time.Since(begin) > test.lasts {
						return nil, false
					}
					late := test.late && !carriedOut
					carriedOut = carriedOut || late
					return test.err, late
				})
				identity := e.disks.add("disk1", "")
				e.start()
				e.pass(test.lasts + 5*time.Minute)
				pv := e.volume()
				if pv == nil {
					e.t.Fatalf("there is no volume: %s", e.reason("disk1"))
				}
				record, _, err := e.records.Get(identity)
				if err != nil || record.State != disk.Published || record.Volume != pv.Name {
					e.t.Errorf("the record is %+v (%v), and the volume %s", record, err, pv.Name)
				}
				e.expect("disk1", "Pending")
				if got := e.disks.cleaned(); len(got) > 0 && !errors.Is(test.err, errNoAnswer) {
					e.t.Errorf("cleaned %q, which were never published", got)
				}
			})
		})
	}
}

// TestVolumeThatTheInformerDoesNotShow: the volume is found by its name, and no second one of
// the same disk is created.
func TestVolumeThatTheInformerDoesNotShow(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.start()
		first := e.volume()
		e.provisioner.volumes.GetStore().Delete(first) //nolint:errcheck // of a map
		e.pass(time.Minute)
		// The record is lost too, so that the provisioner does not know the volume.
		if err := e.records.Delete(disk.Identity(first.Annotations[wellknown.DiskIdentityAnnotation])); err != nil {
			t.Fatal(err)
		}
		e.provisioner.queue.Add(first.Spec.Local.Path)
		e.pass(time.Hour)
		if pv := e.volume(); pv == nil || pv.UID != first.UID {
			t.Errorf("the volume is %v, want %s", pv, first.UID)
		}
	})
}

// TestRefusedVolume: a rejected request leaves the record as it was.
func TestRefusedVolume(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.api.refuse(forbid("create", "persistentvolumes"))
		e.start()
		e.pass(time.Minute)
		if record, ok, err := e.records.Get(identity); ok || err != nil {
			t.Errorf("a disk that was never published has the record %+v (%v)", record, err)
		}
		if got := e.disks.cleaned(); len(got) > 0 {
			t.Errorf("cleaned %q, which were never published", got)
		}
	})
}

// TestStorageClassThatComesLater: the disks of a new class are published at once.
func TestStorageClassThatComesLater(t *testing.T) {
	inBubble(t, func(e *env) {
		classes := e.api.StorageV1().StorageClasses()
		if err := classes.Delete(context.Background(), "fast", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.disks.add("disk1", "")
		e.start()
		e.pass(24 * time.Hour)
		e.expect("disk1", "Pending: StorageClassMissing")
		if _, err := classes.Create(context.Background(), class("fast", corev1.PersistentVolumeReclaimDelete), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e.pass(3 * time.Second)
		if e.volume() == nil {
			t.Errorf("there is no volume: %s", e.reason("disk1"))
		}
	})
}

// TestChangedStorageClass: a change of a class enqueues the paths of its disks and volumes only.
func TestChangedStorageClass(t *testing.T) {
	inBubble(t, func(e *env) {
		e.config.Classes["slow"] = provisioner.Class{HostDir: "/mnt/slow", MountDir: "/mnt/slow"}
		p := e.make()
		defer p.queue.ShutDown()
		for _, class := range []string{"fast", "slow"} {
			p.paths.update("/mnt/"+class+"/disk", func(s *pathState) { s.observed.Fact = &disk.Fact{Key: disk.Key{Class: class, Name: "disk"}} })
			pv := builders.MakePV("pv-"+class).Class(class).Label(wellknown.NodeLabel, localpv.NodeHash(node)).Annotation(wellknown.NodeNameAnnotation, node).
				ProvisionedBy(localpv.ProvisionedBy(node)).Source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/" + class + "/missing"}}).Obj()
			if err := p.volumes.GetStore().Add(pv); err != nil {
				t.Fatal(err)
			}
		}
		for changed, want := range map[string][]string{
			"fast":  {"/mnt/fast/disk", "/mnt/fast/missing"},
			"other": nil,
		} {
			p.classChanged(class(changed, corev1.PersistentVolumeReclaimDelete))
			var got []string
			for p.queue.Len() > 0 {
				path, _ := p.queue.Get()
				got = append(got, path)
				p.queue.Done(path)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("a change of class %s enqueues (-want +got):\n%s", changed, diff)
			}
		}
	})
}

// TestNodeThatComesLater: kubelet may register the node long after its pods' start.
func TestNodeThatComesLater(t *testing.T) {
	inBubble(t, func(e *env) {
		nodes := e.api.CoreV1().Nodes()
		if err := nodes.Delete(context.Background(), node, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.disks.add("disk1", "")
		e.start()
		e.pass(time.Hour)
		if err := e.provisioner.Ready(""); err == nil {
			t.Error("ready without the Node")
		}
		if _, err := nodes.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{corev1.LabelHostname: "h1"}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e.pass(2 * time.Minute)
		if e.volume() == nil {
			t.Error("there is no volume")
		}
	})
}

// TestAPIServerOutage: disks that were found during an outage are published soon after
// it, and no disk is reported as failing.
func TestAPIServerOutage(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.start()
		e.phase(corev1.VolumeAvailable)
		e.api.refuse(func(verb, _, _ string) (error, bool) {
			if verb == "watch" || verb == "list" {
				return nil, false
			}
			return errNoAnswer, false
		})
		e.reports.refuse(errNoAnswer)
		e.disks.add("disk2", "")
		e.disks.add("disk3", "ext4")
		e.look()
		e.pass(time.Hour)
		for _, name := range []string{"disk2", "disk3"} {
			if got := e.reason(name); got != "Pending: CannotInspect" {
				t.Errorf("%s is %q, and it is the API server that does not answer", name, got)
			}
		}
		e.expect("disk1", "Available")
		e.api.refuse(nil)
		e.reports.refuse(nil)
		e.pass(5 * time.Minute)
		e.expect("disk2", "Pending")
		e.expect("disk3", "Skipped: NotEmpty")
		if got := e.api.volumes(); len(got) != 2 {
			t.Errorf("%d volumes, want 2", len(got))
		}
	})
}
