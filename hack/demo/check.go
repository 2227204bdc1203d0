// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/storage/volume"
	podutils "k8s.io/kubernetes/pkg/api/v1/pod"

	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// outcome is what a claim must have in the end.
type outcome struct {
	pod   string
	nodes []string // any of them; none: the pod must wait
	// volume is empty for a claim that must not be bound.
	volume string
}

// published stands for any volume published by the provisioner of the pod's node.
const published = "(published)"

// wanted is how the demo must end, by claim.
var wanted = map[string]outcome{
	"data-db-0": {"db-0", []string{"node-a"}, "a-10gi"},
	"log-db-0":  {"db-0", []string{"node-a"}, "a-1gi"},
	"data-db-1": {"db-1", []string{"node-c"}, "c-12gi"},
	"log-db-1":  {"db-1", []string{"node-c"}, "c-2gi"},
	"data-db-2": {"db-2", []string{"node-d"}, "d-16gi"},
	"log-db-2":  {"db-2", []string{"node-d"}, "d-3gi"},
	"journal":   {"ledger", []string{"node-b"}, "b-5gi"},
	"index":     {"ledger", []string{"node-b"}, "b-2gi-gold"},
	"history":   {"archive", nil, ""},
	"photos":    {"album", []string{"node-c"}, "c-20gi-kept"},
	"uploads":   {"inbox", []string{"node-c", "node-d"}, "zonal-uploads"},

	"data-shop-0": {"shop-0", provisionerNodes, published},
	"log-shop-0":  {"shop-0", provisionerNodes, published},
	"data-shop-1": {"shop-1", provisionerNodes, published},
	"log-shop-1":  {"shop-1", provisionerNodes, published},
	"data-shop-2": {"shop-2", provisionerNodes, published},
	"log-shop-2":  {"shop-2", provisionerNodes, published},
}

// state is all objects of the demo as the API server has them, by name.
type state struct {
	nodes   map[string]*v1.Node
	pods    map[string]*v1.Pod
	claims  map[string]*v1.PersistentVolumeClaim
	volumes map[string]*v1.PersistentVolume
}

// read asks the API server, not a cache.
func read(ctx context.Context, client kubernetes.Interface) (s state, err error) {
	core := client.CoreV1()
	nodes, nodesErr := core.Nodes().List(ctx, metav1.ListOptions{})
	pods, podsErr := core.Pods(namespace).List(ctx, metav1.ListOptions{})
	claims, claimsErr := core.PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	volumes, volumesErr := core.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err := errors.Join(nodesErr, podsErr, claimsErr, volumesErr); err != nil {
		return s, err
	}
	return state{byName(nodes.Items), byName(pods.Items), byName(claims.Items), byName(volumes.Items)}, nil
}

func byName[T any, P interface {
	*T
	metav1.Object
}](items []T) map[string]P {
	named := make(map[string]P, len(items))
	for i := range items {
		named[P(&items[i]).GetName()] = &items[i]
	}
	return named
}

// checkAll prints and checks the outcome.
func (d *demo) checkAll(ctx context.Context) error {
	s, err := read(ctx, d.cluster.Client())
	if err != nil {
		return err
	}
	fmt.Printf("\nResult\n\n")
	if err := s.table(func(string) bool { return true }); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("the outcome is not as expected:\n%w", err)
	}
	metrics, err := d.scheduler.Get(ctx, "/metrics")
	if err != nil {
		return err
	}
	// With the sample's rights, stowage-scheduler must have bound claims itself.
	if !bytes.Contains(metrics, []byte("\nstowage_scheduler_direct_binding_disabled 0\n")) {
		return errors.New("stowage-scheduler does not bind directly: its log names the rights that manifests/scheduler lacks")
	}
	fmt.Println()
	d.print("%s", s.totals())
	return nil
}

// check returns everything that is not as wanted, joined; nil if all is.
func (s state) check() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		errs = append(errs, s.checkClaim(name))
	}
	claimOf := map[string]string{} // by volume
	for _, name := range slices.Sorted(maps.Keys(s.claims)) {
		volume := s.claims[name].Spec.VolumeName
		if _, known := wanted[name]; !known {
			errs = append(errs, fmt.Errorf("claim %s is not part of the demo", name))
		}
		if other, taken := claimOf[volume]; taken && volume != "" {
			errs = append(errs, fmt.Errorf("volume %s is bound twice: to claims %s and %s", volume, other, name))
		}
		claimOf[volume] = name
	}
	for _, name := range slices.Sorted(maps.Keys(s.volumes)) {
		if ref := s.volumes[name].Spec.ClaimRef; ref != nil && claimOf[name] != ref.Name {
			errs = append(errs, fmt.Errorf("volume %s has a claimRef to claim %s, which has another volume", name, ref.Name))
		}
	}
	return errors.Join(errs...)
}

// checkClaim returns the first thing about a claim of the demo that is not as wanted.
func (s state) checkClaim(name string) error {
	want, claim := wanted[name], s.claims[name]
	if claim == nil {
		return fmt.Errorf("claim %s does not exist", name)
	}
	if err := s.checkOutcome(claim, want); err != nil {
		return fmt.Errorf("claim %s of pod %s: %w", name, want.pod, err)
	}
	return nil
}

func (s state) checkOutcome(claim *v1.PersistentVolumeClaim, want outcome) error {
	pod := s.pods[want.pod]
	switch {
	case pod == nil:
		return errors.New("the pod does not exist")
	case claim.Spec.VolumeName == "" && want.volume != "":
		return fmt.Errorf("has no volume; the scheduler reports: %s", rejection(pod))
	case want.volume != published && claim.Spec.VolumeName != want.volume:
		return fmt.Errorf("has volume %q, want %q", claim.Spec.VolumeName, want.volume)
	case len(want.nodes) == 0 && pod.Spec.NodeName == "":
		return nil
	case !slices.Contains(want.nodes, pod.Spec.NodeName):
		return fmt.Errorf("the pod is on %q, want %q", pod.Spec.NodeName, want.nodes)
	case pod.Status.Phase != v1.PodRunning:
		return fmt.Errorf("the pod is %s, want Running", pod.Status.Phase)
	case claim.Status.Phase != v1.ClaimBound:
		return fmt.Errorf("it is %s, want Bound", claim.Status.Phase)
	}
	pv, node := s.volumes[claim.Spec.VolumeName], s.nodes[pod.Spec.NodeName]
	if pv == nil {
		return fmt.Errorf("volume %s does not exist", claim.Spec.VolumeName)
	}
	requested, size := claim.Spec.Resources.Requests.Storage(), pv.Spec.Capacity.Storage()
	switch {
	case want.volume == published && !localpv.Owned(pv, node.Name):
		return fmt.Errorf("volume %s was not published by the provisioner of %s", pv.Name, node.Name)
	case pv.Status.Phase != v1.VolumeBound:
		return fmt.Errorf("volume %s is %s, want Bound", pv.Name, pv.Status.Phase)
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID:
		return fmt.Errorf("volume %s does not refer to it", pv.Name)
	case size.Cmp(*requested) < 0:
		return fmt.Errorf("volume %s has %s, and %s is requested", pv.Name, size, requested)
	case volume.CheckNodeAffinity(pv, node.Labels) != nil:
		return fmt.Errorf("volume %s cannot be used on %s", pv.Name, node.Name)
	}
	return nil
}

// rejection is the message of the pod's condition PodScheduled, which each attempt writes; empty if
// it has none.
func rejection(pod *v1.Pod) string {
	if _, c := podutils.GetPodCondition(&pod.Status, v1.PodScheduled); c != nil && c.Status == v1.ConditionFalse {
		return c.Message
	}
	return ""
}

// until waits until check, which is called after each change, returns nil, and returns the
// objects that it accepted. What check returned last is part of the error of a timeout.
func (d *demo) until(ctx context.Context, what string, check func(state) error) (s state, err error) {
	var last error
	err = d.changes.Wait(ctx, waitTimeout, what, func() bool {
		if s, last = read(ctx, d.cluster.Client()); last == nil {
			last = check(s)
		}
		return last == nil
	})
	if err != nil {
		return s, fmt.Errorf("%w: %w", err, last)
	}
	return s, nil
}

// table prints one line per claim of the selected pods.
func (s state) table(is func(pod string) bool) error {
	table := newTable("POD", "NODE", "ZONE", "CLAIM", "VOLUME", "REQUESTED", "SIZE")
	for _, name := range slices.SortedFunc(maps.Keys(wanted), func(a, b string) int {
		return cmp.Or(strings.Compare(wanted[a].pod, wanted[b].pod), strings.Compare(a, b))
	}) {
		pod, claim := s.pods[wanted[name].pod], s.claims[name]
		if pod == nil || claim == nil || !is(pod.Name) {
			continue
		}
		node, zone, volume, size := "(waits)", "-", "-", "-"
		if n := s.nodes[pod.Spec.NodeName]; n != nil {
			node, zone = n.Name, n.Labels[v1.LabelTopologyZone]
		}
		if pv := s.volumes[claim.Spec.VolumeName]; pv != nil {
			volume, size = short(pv.Name), pv.Spec.Capacity.Storage().String()
		}
		table.row(pod.Name, node, zone, name, volume, claim.Spec.Resources.Requests.Storage().String(), size)
	}
	return table.Flush()
}

// totals sums up a state that has been checked.
func (s state) totals() string {
	bound, placed := 0, 0
	for _, pod := range s.pods {
		if pod.Spec.NodeName != "" {
			placed++
		}
	}
	for _, claim := range s.claims {
		if s.volumes[claim.Spec.VolumeName] != nil {
			bound++
		}
	}
	return fmt.Sprintf("%d pods run, %d waits. %d claims are bound, no volume is bound twice.", placed, len(s.pods)-placed, bound)
}
