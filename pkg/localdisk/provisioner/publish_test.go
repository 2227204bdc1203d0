// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

var errNoAnswer = errors.New("read tcp: connection reset by peer")

// TestAnswersThatAreLost: a disk is published once, whatever becomes of the answers.
func TestLostAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		late  bool // the request was carried out
		lasts time.Duration
	}{
		"the request was carried out":                             {errNoAnswer, true, 5 * time.Second},
		"the request never came":                                  {errNoAnswer, false, 5 * time.Second},
		"the server says that it is too slow, and carries it out": {apierrors.NewTimeoutError("slow", 1), true, 5 * time.Second},
		"too many requests":                                       {apierrors.NewTooManyRequestsError("wait"), false, 10 * time.Second},
		"an admission webhook that is broken for an hour":         {apierrors.NewInternalError(errors.New("failed calling webhook")), false, time.Hour},
		"no answers for an hour, and it was carried out":          {errNoAnswer, true, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				begin, carriedOut := time.Now(), false
				w.api.refuse(func(verb, resource, _ string) (error, bool) {
					if verb != "create" || resource != "persistentvolumes" || time.Since(begin) > test.lasts {
						return nil, false
					}
					late := test.late && !carriedOut
					carriedOut = carriedOut || late
					return test.err, late
				})
				identity := w.disks.add("disk1", "")
				w.start()
				w.pass(test.lasts + 5*time.Minute)
				pv := w.volume()
				if pv == nil {
					w.t.Fatalf("there is no volume: %s", w.reason("disk1"))
				}
				record, _, err := w.records.Get(identity)
				if err != nil || record.State != disk.Published || record.Volume != pv.Name {
					w.t.Errorf("the record is %+v (%v), and the volume %s", record, err, pv.Name)
				}
				w.expect("disk1", "Pending")
				if got := w.disks.cleaned(); len(got) > 0 && !errors.Is(test.err, errNoAnswer) {
					w.t.Errorf("cleaned %q, of which the API server said that they are not published", got)
				}
			})
		})
	}
}

// TestVolumeThatTheInformerDoesNotShow is found by its name, and no second one of the
// same disk is made.
func TestVolumeThatTheInformerDoesNotShow(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.start()
		first := w.volume()
		w.provisioner.volumes.GetStore().Delete(first) //nolint:errcheck // of a map
		w.pass(time.Minute)
		// The record is lost as well, so that the agent knows nothing of the volume.
		if err := w.records.Delete(disk.Identity(first.Annotations[wellknown.DiskIdentityAnnotation])); err != nil {
			t.Fatal(err)
		}
		w.provisioner.queue.Add(first.Spec.Local.Path)
		w.pass(time.Hour)
		if pv := w.volume(); pv == nil || pv.UID != first.UID {
			t.Errorf("the volume is %v, want %s", pv, first.UID)
		}
	})
}

// TestRefusedVolume leaves the disk as it was.
func TestRefusedVolume(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.api.refuse(forbid("create", "persistentvolumes"))
		w.start()
		w.pass(time.Minute)
		if record, ok, err := w.records.Get(identity); ok || err != nil {
			t.Errorf("a disk that was never published has the record %+v (%v)", record, err)
		}
		if got := w.disks.cleaned(); len(got) > 0 {
			t.Errorf("cleaned %q, which were never published", got)
		}
	})
}

// TestStorageClassThatComesLater: its disks are published at once.
func TestStorageClassThatComesLater(t *testing.T) {
	inBubble(t, func(w *env) {
		classes := w.api.StorageV1().StorageClasses()
		if err := classes.Delete(context.Background(), "fast", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.disks.add("disk1", "")
		w.start()
		w.pass(24 * time.Hour)
		w.expect("disk1", "Pending: StorageClassMissing")
		if _, err := classes.Create(context.Background(), class("fast", corev1.PersistentVolumeReclaimDelete), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(3 * time.Second)
		if w.volume() == nil {
			t.Errorf("there is no volume: %s", w.reason("disk1"))
		}
	})
}

// TestNodeThatComesLater: kubelet may register the node long after its pods' start.
func TestNodeThatComesLater(t *testing.T) {
	inBubble(t, func(w *env) {
		nodes := w.api.CoreV1().Nodes()
		if err := nodes.Delete(context.Background(), node, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.disks.add("disk1", "")
		w.start()
		w.pass(time.Hour)
		if err := w.provisioner.Ready(""); err == nil {
			t.Error("the agent is ready, and does not know its node")
		}
		if _, err := nodes.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{corev1.LabelHostname: "h1"}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * time.Minute)
		if w.volume() == nil {
			t.Error("there is no volume")
		}
	})
}

// TestServerAwayForAnHour: what was found meanwhile is published soon after, and no disk
// is called bad for it.
func TestAPIServerOutage(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.start()
		w.phase(corev1.VolumeAvailable)
		w.api.refuse(func(verb, _, _ string) (error, bool) {
			if verb == "watch" || verb == "list" {
				return nil, false
			}
			return errNoAnswer, false
		})
		w.reports.mu.Lock()
		w.reports.refused = errNoAnswer
		w.reports.mu.Unlock()
		w.disks.add("disk2", "")
		w.disks.add("disk3", "ext4")
		w.look()
		w.pass(time.Hour)
		for _, name := range []string{"disk2", "disk3"} {
			if got := w.reason(name); got != "Pending: CannotInspect" {
				t.Errorf("%s is %q, and it is the API server that does not answer", name, got)
			}
		}
		w.expect("disk1", "Available")
		w.api.refuse(nil)
		w.reports.mu.Lock()
		w.reports.refused = nil
		w.reports.mu.Unlock()
		w.pass(5 * time.Minute)
		w.expect("disk2", "Pending")
		w.expect("disk3", "Skipped: NotEmpty")
		if got := w.api.volumes(); len(got) != 2 {
			t.Errorf("%d volumes, want 2", len(got))
		}
	})
}
