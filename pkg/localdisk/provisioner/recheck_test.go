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

// TestRecheckInterval: intervals double after each recheck, up to the limit.
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
				t.Fatalf("after other decisions, %s are left, want 9s", left)
			}
		}
		if left := r.next(time.Now(), time.Second); left != time.Second {
			t.Errorf("with a limit of a second it waits %s", left)
		}
		r = recheck{}
		if first := r.next(time.Now(), last); first != retryFirst {
			t.Errorf("after a success the first interval is %s, want %s", first, retryFirst)
		}
	})
}

// TestFrequentEventsDoNotDelayRechecks: a disk that was emptied is published within half
// a minute, also if events are frequent.
func TestFrequentEventsDoNotDelayRechecks(t *testing.T) {
	inBubble(t, func(e *env) {
		e.retain()
		identity := e.disks.add("disk1", "")
		e.start()
		e.useAndRelease("of the first user")
		e.remove()
		e.expect("disk1", "Retained: RetainedDirty")
		for i := range 20 {
			for _, name := range []string{fmt.Sprintf("other-%d", i), "fast"} {
				e.describe(name)
			}
			e.pass(time.Second)
		}
		e.disks.write(identity, "") // by an administrator
		e.pass(retainedRecheckLast + 2*time.Second)
		if e.volume() == nil {
			t.Error("a retained disk that was emptied is not published within half a minute")
		}
	})
}

// describe creates or changes a StorageClass.
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
