// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWaits: pauses grow with the looks that were waited for, and never beyond the last.
func TestRecheckInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const last = 10 * time.Second
		var r recheck
		var pauses []time.Duration
		wait := func(longest time.Duration) {
			pause := r.next(time.Now(), longest)
			pauses = append(pauses, pause)
			time.Sleep(pause) //nolint:forbidigo // the bubble's time
		}
		for range 6 {
			wait(last)
		}
		if diff := cmp.Diff([]time.Duration{1e9, 2e9, 4e9, 8e9, last, last}, pauses); diff != "" {
			t.Error(diff)
		}
		r.next(time.Now(), last)
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's time
		for range 100 {
			if left := r.next(time.Now(), last); left != last-time.Second {
				t.Fatalf("after other looks, %s are left to wait, want 9s", left)
			}
		}
		if left := r.next(time.Now(), time.Second); left != time.Second {
			t.Errorf("for what is looked for every second it waits %s", left)
		}
		r = recheck{}
		if first := r.next(time.Now(), last); first != retryFirst {
			t.Errorf("what has gone on in between waits %s at first, want %s", first, retryFirst)
		}
	})
}

// TestOtherClassesPutNobodyOff: a disk that was emptied is published within half a minute,
// however much happens in the cluster meanwhile.
func TestFrequentEventsDoNotDelayRechecks(t *testing.T) {
	inBubble(t, func(w *env) {
		w.retain()
		identity := w.disks.add("disk1", "")
		w.start()
		w.useAndRelease("of the first user")
		w.remove()
		w.expect("disk1", "Retained: RetainedDirty")
		for i := range 20 {
			for _, name := range []string{fmt.Sprintf("other-%d", i), "fast"} {
				w.describe(name)
			}
			w.pass(time.Second)
		}
		w.disks.write(identity, "") // by an administrator
		w.pass(retainedRecheckLast + 2*time.Second)
		if w.volume() == nil {
			t.Error("a retained disk that was emptied is not published within half a minute")
		}
	})
}

// describe makes a StorageClass, or changes the one that there is.
func (e *env) describe(name string) {
	e.t.Helper()
	ctx, classes := context.Background(), e.api.StorageV1().StorageClasses()
	made := class(name, corev1.PersistentVolumeReclaimRetain)
	if old, err := classes.Get(ctx, name, metav1.GetOptions{}); err == nil {
		metav1.SetMetaDataAnnotation(&old.ObjectMeta, "example.com/described", time.Now().String())
		if _, err := classes.Update(ctx, old, metav1.UpdateOptions{}); err != nil {
			e.t.Fatal(err)
		}
	} else if _, err := classes.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		e.t.Fatal(err)
	}
}
