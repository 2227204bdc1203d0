// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// directWrites are the four writes of a Direct binding.
var directWrites = map[string]func(fixture.Request) bool{
	"claimRef":      fixture.Is("update", "persistentvolumes"),
	"volumeName":    fixture.Is("update", "persistentvolumeclaims"),
	"volume status": fixture.Is("update", "persistentvolumes/status"),
	"claim status":  fixture.Is("update", "persistentvolumeclaims/status"),
}

// conflicts are the tests with a concurrent writer.
var conflicts = map[string]func(*scenario){
	"every write conflicts with a newer version": everyWriteConflicts,
	"the volume is claimed for another claim": takenBefore(func(s *scenario) {
		rival := s.SeenPVC("rival")
		s.PatchPV("best", spec("claimRef", map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"namespace": s.Namespace, "name": rival.Name, "uid": rival.UID,
		}))
	}),
	"the volume shrinks": takenBefore(func(s *scenario) {
		s.PatchPV("best", spec("capacity", map[string]any{"storage": "512Mi"}))
	}),
	"the volume turns out to be elsewhere": takenBefore(func(s *scenario) {
		s.PatchPV("best", spec("nodeAffinity", s.LocalPV("", "nowhere").Obj().Spec.NodeAffinity))
	}),
	"the volume loses the requested label": takenBefore(func(s *scenario) {
		s.PatchPV("best", metadata("labels", map[string]any{"tier": nil}))
	}),
	"the claim is given another volume": claimGivenAnother,
}

func TestConflictingWriters(t *testing.T) {
	t.Parallel()
	runAll(t, conflicts)
}

func spec(field string, value any) map[string]any {
	return map[string]any{"spec": map[string]any{field: value}}
}

func metadata(field string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{field: value}}
}

// everyWriteConflicts: each write, statuses included, first conflicts with three newer
// versions that differ in labels and annotations only.
func everyWriteConflicts(s *scenario) {
	const pods, times = 4, 3
	var all []*v1.Pod
	s.before = func() {
		s.AddNodes(s.Node("a"), s.Node("b"))
		var volumes []*builders.PV
		for i := range pods {
			for _, node := range []string{"a", "b"} {
				volumes = append(volumes, s.LocalPV(fmt.Sprintf("%s-%d", node, i), node))
			}
			s.CreatePVC(s.PVC(fmt.Sprintf("data-%d", i)))
			s.CreatePVC(s.PVC(fmt.Sprintf("log-%d", i)))
		}
		s.CreatePVs(volumes...)
	}
	s.during = func() {
		_, tap := s.start()
		var mu sync.Mutex
		met := map[fixture.Request]int{}
		remove := tap.Before(volumeWrite, func(ctx context.Context, r fixture.Request) error {
			mu.Lock()
			met[r]++
			n := met[r]
			mu.Unlock()
			if n > times {
				return nil
			}
			return s.touch(ctx, r, n)
		})
		for i := range pods {
			all = append(all, s.CreatePod(s.Pod(fmt.Sprintf("pod-%d", i)).PVC(fmt.Sprintf("data-%d", i), fmt.Sprintf("log-%d", i))))
		}
		wantSettled(s.Env, all...)
		wantNothingReserved(s.Env, s.scheduler)
		remove()
		mu.Lock() // a request may be under way yet
		defer mu.Unlock()
		s.wantMet(met, pods)
	}
	s.after = func() {
		s.start()
		wantSettled(s.Env, all...)
	}
}

// wantMet expects each kind of write to have met newer versions, of an object for
// each pod at least. Beside a PV controller, which may be faster, only the first
// kind is certain to be tried.
func (s *scenario) wantMet(met map[fixture.Request]int, pods int) {
	s.T.Helper()
	for kind, is := range directWrites {
		if kind != "claimRef" && !s.alone {
			continue
		}
		objects := 0
		for r := range met {
			if is(r) {
				objects++
			}
		}
		if objects < pods {
			s.T.Errorf("%d objects met conflicts at the write of the %s, want %d or more", objects, kind, pods)
		}
	}
}

// touch writes the object of a request first. It fails as a request does.
func (s *scenario) touch(ctx context.Context, r fixture.Request, n int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"touched":"%d"},"annotations":{"touched":"%d"}}}`, n, n)
	var err error
	if r.Resource == "persistentvolumes" {
		_, err = s.Client.CoreV1().PersistentVolumes().Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = s.Client.CoreV1().PersistentVolumeClaims(r.Namespace).Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return errors.Join(errors.New("touch the object"), err)
	}
	return nil
}

// oneClaim: the claim's best volume is on every node, the next best on b.
func (s *scenario) oneClaim() {
	s.AddNodes(s.Node("a"), s.Node("b"))
	s.CreatePVs(
		s.PV("best").Capacity("1Gi").Label("tier", "gold"),
		s.LocalPV("next", "b").Capacity("2Gi").Label("tier", "gold"))
	s.CreatePVC(s.PVC("data").MatchLabel("tier", "gold"))
	s.CreatePVC(s.PVC("rival"))
}

// labelledBefore: another writer labels the object just before one of the writes.
func labelledBefore(at func(fixture.Request) bool) func(*scenario) {
	return func(s *scenario) {
		s.before = s.oneClaim
		var pod *v1.Pod
		s.during = func() {
			_, tap := s.start()
			held := tap.Hold(at)
			pod = s.CreatePod(s.Pod("pod").PVC("data"))
			if err := s.touch(s.Context(), s.WaitHeld(held), 1); err != nil {
				s.T.Fatal(err)
			}
			held.Release()
			s.WaitBound("data", "best")
			wantSettled(s.Env, pod)
			wantNothingReserved(s.Env, s.scheduler)
		}
		s.after = func() { wantSettled(s.Env, pod) }
	}
}

// takenBefore: the volume stops being fit just before its claimRef is written,
// so that the pod is placed on the other one.
func takenBefore(take func(*scenario)) func(*scenario) {
	return func(s *scenario) {
		s.before = s.oneClaim
		var pod *v1.Pod
		s.during = func() {
			_, tap := s.start()
			held := tap.Hold(fixture.Is("update", "persistentvolumes"))
			pod = s.CreatePod(s.Pod("pod").PVC("data"))
			s.WaitHeld(held)
			take(s)
			held.Release()
			s.WaitScheduled(pod, "b")
			s.WaitBound("data", "next")
			wantNothingReserved(s.Env, s.scheduler)
		}
		s.after = func() {
			if ref := s.SeenPV("best").Spec.ClaimRef; ref != nil {
				s.WaitBound(ref.Name, "best")
			}
			wantSettled(s.Env, pod)
		}
	}
}

// claimGivenAnother: the claim's owner names a volume just before the scheduler
// writes the claimRef of another, which is then removed.
func claimGivenAnother(s *scenario) {
	s.before = s.oneClaim
	var pod *v1.Pod
	s.during = func() {
		_, tap := s.start()
		held := tap.Hold(fixture.Is("update", "persistentvolumes"))
		pod = s.CreatePod(s.Pod("pod").PVC("data"))
		s.WaitHeld(held)
		s.PatchPVC("data", spec("volumeName", s.Name("next")))
		held.Release()
		if s.alone {
			s.WaitUnschedulable(pod, "unbound immediate")
			wantNothingReserved(s.Env, s.scheduler)
		}
		s.wantFree("best")
	}
	s.after = func() {
		s.start()
		s.WaitScheduled(pod, "b")
		s.WaitBound("data", "next")
		wantSettled(s.Env, pod)
	}
}
