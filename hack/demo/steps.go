// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// step is one of the demo's steps: it prints title and text, then run adds to them.
type step struct {
	title, text string
	run         func(ctx context.Context, d *demo) error
}

var steps = []step{
	{"Four nodes in two zones, with local volumes of different sizes", "", createNodes},
	{
		"A StatefulSet: three replicas, each with two claims",
		"Each requests 10Gi for data and 1Gi for its log, and both volumes must be on one node. " +
			"The tightest fit comes first, the zones take turns.",
		func(ctx context.Context, d *demo) error {
			return d.placeSet(ctx, "statefulset.yaml", "db-0", "db-1", "db-2")
		},
	},
	{
		"A pod that the stock scheduler cannot place",
		"ledger has two claims: journal requests 1Gi, index requests 2Gi of tier gold. node-b has " +
			"b-2gi-gold and b-5gi. The smaller claim, matched first, takes the only gold volume. Event of kube-scheduler:",
		placeJoint,
	},
	{
		"A pod that cannot be placed",
		"archive requests 50Gi, and no node has a volume of that size. kubectl describe pod archive:",
		showRefusal,
	},
	{
		"A volume reserved for a claim by hand",
		"The claimRef of c-20gi-kept names claim photos, which requests 3Gi. d-3gi would fit better, " +
			"but a volume that names the claim comes first.",
		func(ctx context.Context, d *demo) error { return d.place(ctx, "prebound.yaml") },
	},
	{
		"A class whose volumes are provisioned on demand, in one zone only",
		"Class zonal may provision in zone south only. The scheduler chooses the node, then an " +
			"external provisioner creates a volume in that node's zone.",
		func(ctx context.Context, d *demo) error { return d.place(ctx, "dynamic.yaml") },
	},
	{
		"Three nodes publish their own disks",
		"stowage-provisioner runs for node-a, node-b and node-c, as a pod of its DaemonSet would: with " +
			"the rights of manifests/provisioner, its admission policies, and a token of its node.",
		publishDisks,
	},
	{"A StatefulSet on published volumes", "", placeShop},
	{
		"Volumes released, cleaned and published again",
		"The StatefulSet is deleted, and then its claims. The provisioners see their volumes Released, delete " +
			"them so that no claim can bind them, clean the disks and publish new volumes. Times count from the deletion of " +
			"the first claim.",
		releaseShop,
	},
	{"The StatefulSet is created again", "New claims, on new volumes of the same disks:", placeShopAgain},
}

// noVolumes is a scheduler's reason for nodes that have no volumes for a pod.
const noVolumes = "didn't find available persistent volumes to bind"

// createNodes creates nodes, and volumes that only one node can use.
func createNodes(ctx context.Context, d *demo) error {
	list, err := load("nodes.yaml")
	if err != nil {
		return err
	}
	nodes, _ := split[*v1.Node](list)
	if err := d.cluster.AddNodes(ctx, nodes...); err != nil {
		return err
	}
	if list, err = load("volumes.yaml"); err != nil {
		return err
	}
	if err := d.createAll(ctx, list); err != nil {
		return err
	}
	volumes, _ := split[*v1.PersistentVolume](list)
	table := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	for _, node := range nodes {
		var names []string
		for _, pv := range volumes {
			if reaches(pv, node) {
				names = append(names, pv.Name)
			}
		}
		fmt.Fprintf(table, "%s%s\tzone %s\t%s\n", indent, node.Name, node.Labels[v1.LabelTopologyZone], strings.Join(names, "  "))
	}
	return table.Flush()
}

// placeJoint has two schedulers in turn place one pod, with the same claims and the same volumes:
// matching one claim after the other fails.
func placeJoint(ctx context.Context, d *demo) error {
	list, err := load("joint.yaml")
	if err != nil {
		return err
	}
	pods, claims := split[*v1.Pod](list)
	if len(pods) != 1 {
		return fmt.Errorf("joint.yaml has %d pods, want 1", len(pods))
	}
	pod := pods[0]
	if err := d.objects.createAll(ctx, append(claims, runtime.Object(pod))); err != nil {
		return err
	}
	message, err := d.watch.refusal(ctx, pod.Name, stock, noVolumes)
	if err != nil {
		return err
	}
	d.quote(message)
	d.print("The same pod with schedulerName: %s, whose claims are matched together:", stowage)
	if err := d.cluster.Client().CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := d.watch.gone(ctx, pod.Name); err != nil {
		return err
	}
	pod = pod.DeepCopy()
	pod.Spec.SchedulerName = stowage
	return d.run(ctx, pod)
}

// showRefusal prints the reason that the owner of a pod sees.
func showRefusal(ctx context.Context, d *demo) error {
	if err := d.apply(ctx, "refused.yaml"); err != nil {
		return err
	}
	message, err := d.watch.refusal(ctx, "archive", stowage, noVolumes)
	if err != nil {
		return err
	}
	d.quote(message)
	d.print("It waits, and is queued again when a volume appears that could fit.")
	return nil
}

// place applies a file of manifests with one pod for our scheduler, waits until
// it runs and prints which volumes its claims have.
func (d *demo) place(ctx context.Context, file string) error {
	list, err := load(file)
	if err != nil {
		return err
	}
	pods, rest := split[*v1.Pod](list)
	if len(pods) != 1 {
		return fmt.Errorf("%s has %d pods, want 1", file, len(pods))
	}
	if err := d.createAll(ctx, rest); err != nil {
		return err
	}
	return d.run(ctx, pods[0])
}

// run creates the pod, waits until it runs and prints its volumes.
func (d *demo) run(ctx context.Context, pod *v1.Pod) error {
	begin := time.Now()
	if err := d.objects.createAll(ctx, []runtime.Object{pod}); err != nil {
		return err
	}
	placed, err := d.watch.running(ctx, pod.Name)
	if err != nil {
		return err
	}
	if err := d.printPlaced(placed); err != nil {
		return err
	}
	d.print("(%d ms from creating the pod to seeing it run)", time.Since(begin).Milliseconds())
	return nil
}

// placeSet applies a file of manifests, waits until the pods run and prints their volumes.
func (d *demo) placeSet(ctx context.Context, file string, pods ...string) error {
	list, err := load(file)
	if err != nil {
		return err
	}
	if err := d.createAll(ctx, list); err != nil {
		return err
	}
	return d.printRunning(ctx, pods)
}

// printRunning waits until the pods run and prints their volumes.
func (d *demo) printRunning(ctx context.Context, pods []string) error {
	for _, name := range pods {
		pod, err := d.watch.running(ctx, name)
		if err != nil {
			return err
		}
		if err := d.printPlaced(pod); err != nil {
			return err
		}
	}
	return nil
}

// printPlaced prints the node of a pod and the volumes of its claims.
func (d *demo) printPlaced(pod *v1.Pod) error {
	d.print("%s runs on %s", pod.Name, pod.Spec.NodeName)
	for _, name := range claimsOf(pod) {
		claim, err := d.watch.claims.Get(name)
		if err != nil {
			return err
		}
		requested := claim.Spec.Resources.Requests[v1.ResourceStorage]
		size := claim.Status.Capacity[v1.ResourceStorage]
		d.print("- claim %s requests %s and has volume %s of %s", name, requested.String(), short(claim.Spec.VolumeName), size.String())
	}
	return nil
}

// claimsOf are the names of the pod's claims, in order.
func claimsOf(pod *v1.Pod) []string {
	var names []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}
