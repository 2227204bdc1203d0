// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
)

// TestActivatedOnRelease: a driver provisions a volume and does not update its capacity.
// When the hold expires, the pods that it keeps from their node are activated, and no
// others.
func TestActivatedOnRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := pod("first", "c")
		waits := func(name string, claims ...string) *v1.Pod {
			return builders.MakePod(name).Namespace("default").UID("pod-" + name).SchedulerName("profile").PVC(claims...).Obj()
		}
		running := waits("runs", "d")
		running.Spec.NodeName = "a"
		elsewhere := waits("of-another-profile", "d")
		elsewhere.Spec.SchedulerName = "other"
		w := newTestbed(t, csiClass().Obj(), csiDriver(true), node("a").Obj(), capacity("r", "a", "100Gi").Obj(),
			claim("c", "60Gi").Class("csi").Obj(), claim("d", "50Gi").Class("csi").Obj(),
			claim("large", "101Gi").Class("csi").Obj(),
			running)
		if status := w.begin(first).reserve("a"); !status.IsSuccess() {
			t.Fatal(status)
		}
		for _, pod := range []*v1.Pod{waits("waits", "d"), waits("too-large", "large"), elsewhere} {
			w.put(pod)
			if w.begin(pod).filter("a").IsSuccess() {
				t.Fatalf("pod %s fits", pod.Name)
			}
		}
		w.put(builders.MakePV("made").Class("csi").Hostname("a").ClaimRef("default", "c", "pvc-c").Obj(),
			claim("c", "60Gi").Class("csi").Bound("made").Obj())
		w.cache.Release(first.UID)
		<-time.After(2 * time.Minute) // of the bubble
		synctest.Wait()
		if len(w.activated) > 0 {
			t.Fatalf("activated too early: %s", <-w.activated)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		close(w.activated)
		var got []string
		for pod := range w.activated {
			got = append(got, pod)
		}
		if diff := cmp.Diff([]string{"default/waits"}, got); diff != "" {
			t.Errorf("activated (-want +got):\n%s", diff)
		}
		w.check()
	})
}
