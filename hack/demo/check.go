// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

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

// checkOutcome prints and checks the outcome.
func (d *demo) checkOutcome(ctx context.Context) error {
	s, err := read(ctx, d.cluster.Client())
	if err != nil {
		return err
	}
	fmt.Printf("\nResult\n\n")
	if err := s.table(); err != nil {
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
	claimOf := map[string]string{} // by volume
	for _, name := range slices.Sorted(maps.Keys(s.claims)) {
		claim := s.claims[name]
		want, known := wanted[name]
		if !known {
			errs = append(errs, fmt.Errorf("claim %s is not part of the demo", name))
			continue
		}
		if other, taken := claimOf[claim.Spec.VolumeName]; taken && claim.Spec.VolumeName != "" {
			errs = append(errs, fmt.Errorf("volume %s is bound twice: to claims %s and %s", claim.Spec.VolumeName, other, name))
		}
		claimOf[claim.Spec.VolumeName] = name
		if err := s.checkClaim(claim, want); err != nil {
			errs = append(errs, fmt.Errorf("claim %s of pod %s: %w", name, want.pod, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if s.claims[name] == nil {
			errs = append(errs, fmt.Errorf("claim %s does not exist", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.volumes)) {
		pv := s.volumes[name]
		if ref := pv.Spec.ClaimRef; ref != nil && claimOf[name] != ref.Name {
			errs = append(errs, fmt.Errorf("volume %s has a claimRef to claim %s, which has another volume", name, ref.Name))
		}
	}
	return errors.Join(errs...)
}

func (s state) checkClaim(claim *v1.PersistentVolumeClaim, want outcome) error {
	pod := s.pods[want.pod]
	switch {
	case want.volume == published && claim.Spec.VolumeName == "":
		return errors.New("has no volume")
	case want.volume != published && claim.Spec.VolumeName != want.volume:
		return fmt.Errorf("has volume %q, want %q", claim.Spec.VolumeName, want.volume)
	case pod == nil:
		return errors.New("the pod does not exist")
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
	case !reaches(pv, node):
		return fmt.Errorf("volume %s cannot be used on %s", pv.Name, node.Name)
	}
	return nil
}

// reaches reports whether the volume can be used on the node.
func reaches(pv *v1.PersistentVolume, node *v1.Node) bool {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	return err == nil && selector.Match(node)
}

// table prints one line per claim.
func (s state) table() error {
	table := newTable()
	fmt.Fprintf(table, "%sPOD\tNODE\tZONE\tCLAIM\tVOLUME\tREQUESTED\tSIZE\n", indent)
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		node, zone := "(waits)", "-"
		if n := s.nodes[s.pods[name].Spec.NodeName]; n != nil {
			node, zone = n.Name, n.Labels[v1.LabelTopologyZone]
		}
		for _, claim := range claimsOf(s.pods[name]) {
			volume, capacity := "-", "-"
			if pv := s.volumeOf(claim); pv != nil {
				volume, capacity = short(pv.Name), pv.Spec.Capacity.Storage().String()
			}
			requested := "-"
			if c := s.claims[claim]; c != nil {
				requested = c.Spec.Resources.Requests.Storage().String()
			}
			fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", indent, name, node, zone, claim, volume, requested, capacity)
		}
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
	for claim := range s.claims {
		if s.volumeOf(claim) != nil {
			bound++
		}
	}
	return fmt.Sprintf("%d pods run, %d waits. %d claims are bound, no volume is bound twice.", placed, len(s.pods)-placed, bound)
}

// volumeOf is the claim's volume, nil for none.
func (s state) volumeOf(claim string) *v1.PersistentVolume {
	if c := s.claims[claim]; c != nil {
		return s.volumes[c.Spec.VolumeName]
	}
	return nil
}
