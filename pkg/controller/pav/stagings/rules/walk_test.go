// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/pav/report"
)

// world is what the API server, kubelet and the node service have: one PavStaging and its helper pods.
type world struct {
	t     *testing.T
	rand  *rand.Rand
	facts *Facts // the current ones
	// earlier are facts that an informer may still have.
	earlier []*Facts
	version int

	pods map[string]*podstep.Pod // by name
	uids int
	// onNode: a staging pod was created, and the node has not confirmed since that nothing is left.
	onNode bool
	// reverted: an unstaging pod has succeeded after the last staging pod ended.
	reverted bool
	released bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), facts: dynamic(), pods: map[string]*podstep.Pod{}}
	w.facts.Staging.Finalizers, w.facts.Staging.ResourceVersion = nil, "0"
	w.facts.Limits.BackoffFirst, w.facts.Limits.BackoffLast = time.Second, 2*time.Second
	return w
}

// chance reports whether an event with a probability of percent happens.
func (w *world) chance(percent int) bool { return w.rand.IntN(100) < percent }

// changed has the staging have another version.
func (w *world) changed() {
	w.version++
	w.facts.Staging.ResourceVersion = strconv.Itoa(w.version)
}

// snapshot returns copies of facts, with the pod that the status names.
func (w *world) snapshot(f *Facts, live bool) *Facts {
	c := *f
	c.Live = live
	c.Now = w.facts.Now
	c.Staging = f.Staging.DeepCopy()
	c.Pod = nil
	if step := c.Staging.Status.Step; step != nil {
		if pod := w.pods[step.PodName]; pod != nil {
			c.Pod = new(*pod)
		}
	}
	return &c
}

// reconcile decides from facts that may be old, reads if that is necessary, and takes the step.
func (w *world) reconcile() {
	from := w.facts
	if len(w.earlier) > 0 && w.chance(30) {
		from = w.earlier[w.rand.IntN(len(w.earlier))]
	}
	f := w.snapshot(from, false)
	step := Decide(f)
	if _, read := step.(Read); read {
		f = w.snapshot(w.facts, true)
		step = Decide(f)
	}
	w.earlier = append(w.earlier, w.snapshot(w.facts, false))
	w.earlier = w.earlier[max(0, len(w.earlier)-5):]
	w.act(f, step)
}

func (w *world) act(f *Facts, step Step) {
	current := f.Staging.ResourceVersion == w.facts.Staging.ResourceVersion && f.Staging.UID == w.facts.Staging.UID
	staging := w.facts.Staging
	write := func(status stowage.PavStagingStatus) {
		if current {
			staging.Status = status
			w.changed()
		}
	}
	switch step := step.(type) {
	case AddFinalizer:
		if current {
			staging.Finalizers = []string{wellknown.PavStagingFinalizer}
			w.changed()
		}
	case Begin:
		if w.onNode && current {
			w.t.Fatalf("an attempt begins while an earlier one may be on the node: %+v", staging.Status)
		}
		write(step.Status)
	case Record:
		write(step.Status)
	case CreatePod:
		w.create(f.Staging)
	case DeletePod:
		if pod := w.pods[f.Staging.Status.Step.PodName]; pod != nil && pod.UID == step.UID && pod.DeletedAt.IsZero() {
			pod.DeletedAt = w.facts.Now
		}
	case ReleasePod:
		if pod := w.pods[f.Staging.Status.Step.PodName]; pod != nil && pod.UID == step.UID {
			pod.Finalized = false
			if pod.Over {
				delete(w.pods, f.Staging.Status.Step.PodName)
			}
		}
	case Delete:
		if current {
			staging.DeletionTimestamp = new(metav1.NewTime(w.facts.Now))
			w.changed()
		}
	case Release:
		if !current {
			return
		}
		if w.onNode && w.facts.Node != nil {
			w.t.Fatalf("the finalizer is removed while the volume may be on the node: %+v", staging.Status)
		}
		staging.Finalizers = nil
		w.released = true
	}
}

func (w *world) create(staging *stowage.PavStaging) {
	step := staging.Status.Step
	if w.pods[step.PodName] != nil {
		return // AlreadyExists
	}
	if len(w.pods) > 0 {
		w.t.Fatalf("a second helper pod is created beside %v", w.pods)
	}
	w.uids++
	w.pods[step.PodName] = &podstep.Pod{UID: types.UID(strconv.Itoa(w.uids)), Adoptable: true, Finalized: true}
	if step.Name == stowage.PavStepStaging {
		if w.onNode {
			w.t.Fatalf("a staging pod is created while an earlier one may have left something: %+v", staging.Status)
		}
		w.onNode, w.reverted = true, false
	}
}

// nature is what others than the controller do. Once calm, nothing fails and nothing more is requested.
func (w *world) nature(calm bool) {
	staging, status := w.facts.Staging, &w.facts.Staging.Status
	w.facts.Now = w.facts.Now.Add(time.Duration(w.rand.IntN(1500)) * time.Millisecond)
	for _, pod := range w.pods {
		w.progress(pod, status.Step, calm)
	}
	if status.Phase == stowage.PavStagingClearing && staging.Spec.ClearedAttempt < status.StagedAttempt && (calm || w.chance(30)) {
		if !w.reverted && w.facts.Evaluated.HasPod {
			w.t.Fatalf("the node is asked to clear the volume before an unstaging pod succeeded: %+v", status)
		}
		staging.Spec.ClearedAttempt, w.onNode = status.StagedAttempt, false
		w.changed()
	}
	if calm {
		if staging.DeletionTimestamp == nil {
			staging.DeletionTimestamp = new(metav1.NewTime(w.facts.Now))
			w.changed()
		}
		return
	}
	switch {
	case w.chance(2):
		staging.Spec.BootID += "x"
		w.changed()
	case w.chance(2):
		w.facts.Used = !w.facts.Used
	case w.chance(1) && staging.DeletionTimestamp == nil && len(staging.Finalizers) > 0:
		staging.DeletionTimestamp = new(metav1.NewTime(w.facts.Now))
		w.changed()
	case w.chance(3):
		for name := range w.pods { // its finalizer is stripped, too
			if status.Step == nil || status.Step.Name != stowage.PavStepStaging {
				delete(w.pods, name)
			}
		}
	}
}

// progress has a helper pod run, end, and terminate.
func (w *world) progress(pod *podstep.Pod, step *stowage.PavVolumeStep, calm bool) {
	if pod.Over {
		return
	}
	staging := step != nil && step.Name == stowage.PavStepStaging
	if !pod.DeletedAt.IsZero() {
		pod.Over, pod.Ready = true, false
		if pod.Result == nil {
			pod.Result = &stowage.PavStepResult{Message: "was deleted"}
		}
		return
	}
	switch {
	case staging && w.chance(20):
		pod.Done = true
	case staging && w.chance(60):
		pod.Ready = !pod.Ready || calm
	case w.chance(40) && (!staging || !calm):
		pod.Over, pod.Ready, pod.Done = true, false, false
		succeeded := calm || w.chance(60)
		pod.Result, pod.Volume = &stowage.PavStepResult{Succeeded: succeeded}, report.Volume{Kind: report.Directory}
		if step != nil && step.Name == stowage.PavStepUnstaging && succeeded {
			w.reverted = true
		}
	}
}

// However pods, nodes and informers behave, no attempt begins on top of another one, at most one helper
// pod exists, and a volume that is not requested any more is unstaged in the end.
func TestWalk(t *testing.T) {
	t.Parallel()
	phases := map[stowage.PavStagingPhase]int{}
	for seed := range uint64(3000) {
		w := newWorld(t, seed)
		for range 60 {
			w.nature(false)
			w.reconcile()
			phases[w.facts.Staging.Status.Phase]++
			if w.released {
				break
			}
		}
		for range 400 {
			if w.released {
				break
			}
			w.nature(true)
			w.reconcile()
		}
		if !w.released && len(w.facts.Staging.Finalizers) > 0 {
			t.Fatalf("seed %d: not unstaged in the end: %+v, pods %v", seed, w.facts.Staging.Status, w.pods)
		}
	}
	for _, phase := range []stowage.PavStagingPhase{stowage.PavStagingStaging, stowage.PavStagingStaged, stowage.PavStagingUnstaging, stowage.PavStagingClearing} {
		if phases[phase] == 0 {
			t.Errorf("no walk came to phase %s", phase)
		}
	}
}
