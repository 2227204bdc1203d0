// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// Parts of messages in pod conditions.
const (
	noVolume      = "node(s) didn't find available persistent volumes to bind"
	nodeConflict  = "node(s) didn't match PersistentVolume's node affinity"
	reserved      = "node(s) didn't fit the persistent volume reserved for a claim"
	volumeMissing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	immediate     = "pod has unbound immediate PersistentVolumeClaims"
	// leftOut is the scheduler's reason for nodes that PreFilter did not name.
	leftOut = "node(s) didn't satisfy plugin(s) [VolumeTopology]"
)

// scene has the objects that exist when a pod is created.
type scene struct {
	nodes   []*builders.Node
	volumes []*builders.PV
	claims  []*builders.PVC
	// pod uses all claims in the order given, if it is nil.
	pod *builders.Pod
}

// scenario is a scene and its result: the pod on a node and its claims with
// volumes, or the pod refused.
type scenario struct {
	given func(*fixture.Env) scene
	// node on which the pod must be placed; not checked if empty.
	node string
	// volumes by claim; not checked if nil.
	volumes map[string]string
	// refusal is part of the message of a pod that must not be placed.
	refusal string
}

func run(t *testing.T, scenarios map[string]scenario) {
	t.Helper()
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.happens(fixture.New(t))
		})
	}
}

func (s scenario) happens(e *fixture.Env) {
	e.T.Helper()
	pod := create(e, s.given(e))
	if s.refusal != "" {
		e.WaitUnschedulable(pod, s.refusal)
		return
	}
	if s.node != "" {
		e.WaitScheduled(pod, s.node)
	} else {
		e.WaitScheduled(pod)
	}
	wantBindings(e, s.volumes)
	e.NoVolumeTwice()
}

// create makes the scene, the pod last.
func create(e *fixture.Env, given scene) *v1.Pod {
	e.T.Helper()
	e.AddNodes(given.nodes...)
	pod := given.pod
	if pod == nil {
		pod = e.Pod("pod")
		for _, claim := range given.claims {
			pod.PVC(claim.Obj().Name)
		}
	}
	for _, claim := range given.claims {
		e.CreatePVC(claim)
	}
	e.CreatePVs(given.volumes...)
	return e.CreatePod(pod)
}

// wantBindings waits until all the claims are bound and compares.
func wantBindings(e *fixture.Env, want map[string]string) {
	e.T.Helper()
	if want == nil {
		return
	}
	for claim := range want {
		e.WaitBound(claim, "")
	}
	if diff := cmp.Diff(want, e.Bindings()); diff != "" {
		e.T.Errorf("volumes of claims (-want +got):\n%s\n%s", diff, e.Dump())
	}
}

// on pins a pod to a node.
func on(e *fixture.Env, pod *builders.Pod, node string) *builders.Pod {
	return pod.NodeSelector(v1.LabelHostname, e.Name(node))
}

// refusedByVolumes waits until the pod is refused for this reason. Where
// few nodes are possible, PreFilter names them instead of reasons
// for all the others.
func refusedByVolumes(e *fixture.Env, pod *v1.Pod, reason string) {
	e.T.Helper()
	e.WaitPod(pod, "refused because of "+reason, func(p *v1.Pod) bool {
		return containsAny(fixture.Refusal(p), reason, leftOut)
	})
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
