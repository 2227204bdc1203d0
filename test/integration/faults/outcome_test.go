// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
)

// waitTimeout is how long a wait may take where many pods are involved and the
// machine is loaded.
var waitTimeout = 3 * deadline.Wait()

// wantSettled waits until every pod has a node and each of their claims is
// Bound, and then checks that the API server's objects agree: see wantConsistent.
func wantSettled(e *fixture.Env, pods ...*v1.Pod) {
	e.T.Helper()
	for _, pod := range pods {
		e.WaitScheduled(pod)
		for _, claim := range claimsOf(pod) {
			e.WaitBound(claim, "")
		}
	}
	e.Wait("volumes of bound claims to be Bound", func() bool {
		for _, pod := range pods {
			for _, name := range claimsOf(pod) {
				claim := e.SeenPVC(name)
				if claim == nil {
					return false
				}
				volume := e.SeenPV(claim.Spec.VolumeName)
				if volume == nil || volume.Status.Phase != v1.VolumeBound {
					return false
				}
			}
		}
		return true
	})
	wantConsistent(e)
	wantReachable(e, pods)
}

// wantReachable checks that every pod is on a node that its volumes admit, if the node still exists.
func wantReachable(e *fixture.Env, pods []*v1.Pod) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	nodes, err := e.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		e.T.Fatal(err)
	}
	labels := map[string]map[string]string{}
	for _, node := range nodes.Items {
		labels[node.Name] = node.Labels
	}
	for _, pod := range pods {
		node := e.SeenPod(pod.Name).Spec.NodeName
		if labels[node] == nil {
			continue
		}
		for _, name := range claimsOf(pod) {
			if err := storagehelpers.CheckNodeAffinity(e.SeenPV(e.SeenPVC(name).Spec.VolumeName), labels[node]); err != nil {
				e.T.Errorf("pod %s is on node %s, which claim %s's volume does not admit: %v", pod.Name, node, name, err)
			}
		}
	}
}

// claimedInVain are the volumes whose claim is bound to another one. A request of a
// stopped scheduler may arrive after its successor has chosen.
func claimedInVain(e *fixture.Env) []string {
	var names []string
	for _, volume := range e.SeenPVs() {
		ref := volume.Spec.ClaimRef
		if ref == nil || ref.Namespace != e.Namespace {
			continue
		}
		claim := e.SeenPVC(ref.Name)
		if claim != nil && claim.UID == ref.UID && claim.Spec.VolumeName != "" && claim.Spec.VolumeName != volume.Name {
			names = append(names, volume.Name)
		}
	}
	return names
}

// wantConsistent waits until the PV controller has released volumes whose
// claim has another one. Then it checks in the API server: no claim Lost, no volume bound to two
// claims; every claim that names a volume is named by it, and every volume that
// names a claim of this test, by name and UID, is that claim's.
func wantConsistent(e *fixture.Env) {
	e.T.Helper()
	e.NoVolumeTwice()
	e.Wait("volumes whose claim has another one to be released", func() bool { return len(claimedInVain(e)) == 0 })
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	claims, err := e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.T.Fatal(err)
	}
	volumes, err := e.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		e.T.Fatal(err)
	}
	for _, mistake := range disagreements(e.Namespace, claims.Items, volumes.Items) {
		e.T.Error(mistake)
	}
	e.CheckCaches()
	if e.T.Failed() {
		e.T.Fatal(e.Dump())
	}
}

// disagreements lists where claims of the namespace and volumes do not refer to
// each other.
func disagreements(namespace string, claims []v1.PersistentVolumeClaim, volumes []v1.PersistentVolume) []string {
	var found []string
	byName := map[string]*v1.PersistentVolume{}
	for i := range volumes {
		byName[volumes[i].Name] = &volumes[i]
	}
	byUID := map[string]*v1.PersistentVolumeClaim{}
	for i := range claims {
		claim := &claims[i]
		byUID[string(claim.UID)] = claim
		if claim.Spec.VolumeName == "" {
			continue
		}
		volume := byName[claim.Spec.VolumeName]
		switch {
		case volume == nil:
			found = append(found, fmt.Sprintf("claim %s names volume %s, which does not exist", claim.Name, claim.Spec.VolumeName))
		case volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID ||
			volume.Spec.ClaimRef.Name != claim.Name || volume.Spec.ClaimRef.Namespace != claim.Namespace:
			found = append(found, fmt.Sprintf("claim %s (%s) names volume %s, which refers to %v", claim.Name, claim.UID, volume.Name, volume.Spec.ClaimRef))
		}
	}
	for name, volume := range byName {
		ref := volume.Spec.ClaimRef
		if ref == nil || ref.Namespace != namespace || ref.UID == "" {
			continue
		}
		if claim := byUID[string(ref.UID)]; claim != nil && claim.Spec.VolumeName != name {
			found = append(found, fmt.Sprintf("volume %s refers to claim %s, which names volume %q", name, ref.Name, claim.Spec.VolumeName))
		}
	}
	return found
}

// wantNothingReserved waits until the scheduler has released its
// reservations. It must be this test's own.
func wantNothingReserved(e *fixture.Env, s *fixture.Scheduler) {
	e.T.Helper()
	e.Wait("reservations to be released", func() bool { return s.Cache().Size().Reservations == 0 })
}

// claimsOf are the names of the claims that the pod uses.
func claimsOf(pod *v1.Pod) []string {
	var names []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// scheduled is how many of the pods have a node.
func scheduled(e *fixture.Env, pods []*v1.Pod) int {
	n := 0
	for _, pod := range pods {
		if seen := e.SeenPod(pod.Name); seen != nil && seen.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// controllerHasSeenAll returns when the PV controller has processed all
// objects that existed at the call, and made all its writes about them.
func controllerHasSeenAll(e *fixture.Env, name string) {
	e.T.Helper()
	class := e.CreateClass(e.Class(name).Immediate()).Name
	e.CreatePVs(e.PV(name).Class(class))
	e.CreatePVC(e.PVC(name).Class(class))
	e.WaitBound(name, name)
}

// hasSeen waits until the scheduler's own informer has the state. The test's informers
// may have it earlier.
func hasSeen(e *fixture.Env, informer cache.SharedIndexInformer, what string, seen func() bool) {
	e.T.Helper()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // is about to look
		}
	}
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		e.T.Fatal(err)
	}
	defer func() {
		if err := informer.RemoveEventHandler(handle); err != nil {
			e.T.Error(err)
		}
	}()
	timeout := time.NewTimer(e.Timeout)
	defer timeout.Stop()
	for !seen() {
		select {
		case <-changed:
		case <-timeout.C:
			e.T.Fatalf("waited %v for the scheduler to see %s\n%s", e.Timeout, what, e.Dump())
		}
	}
}

// bothModes runs a test with each binding mode, in parallel.
func bothModes(t *testing.T, test func(*testing.T, fixture.Profile)) {
	t.Helper()
	for name, profile := range map[string]fixture.Profile{
		"Direct": {}, "PVController": {Args: fixture.PVControllerArgs()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, profile)
		})
	}
}
