// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"stowage.dev/stowage/test/cluster"
)

// step is one of the demo's steps: its title and text are printed, then run adds to them.
type step struct {
	title, text string
	run         func(ctx context.Context, d *demo) error
}

var steps = []step{
	{
		"Four nodes in two zones, with local volumes of different sizes",
		"The nodes are simulated; API server, controllers and schedulers are real.",
		createNodes,
	},
	{
		"A StatefulSet: three replicas, each with two claims",
		"Each requests 10Gi for data and 1Gi for its log, and both volumes must be on one node. " +
			"The tightest fit comes first, the zones take turns.",
		place("statefulset.yaml"),
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
		showRejection,
	},
	{
		"A volume reserved for a claim by hand",
		"The claimRef of c-20gi-kept names claim photos, which requests 3Gi. d-8gi would fit better, " +
			"but a volume that names the claim comes first.",
		place("prebound.yaml"),
	},
	{
		"A class whose volumes are provisioned on demand, in one zone only",
		"Class zonal may provision in zone south only. The scheduler chooses the node, then an " +
			"external provisioner creates a volume in that node's zone.",
		place("dynamic.yaml"),
	},
	{
		"Three nodes publish their own disks",
		"stowage-provisioner runs for node-a, node-b and node-c, as a pod of its DaemonSet would: with " +
			"the rights of manifests/provisioner, its admission policies, and a token of its node. Plain folders, which " +
			"share a file system, stand for disks.",
		publishDisks,
	},
	{
		"A StatefulSet on published volumes",
		"For the scheduler these are volumes like any others. Simulated pods write nothing, so the demo writes " +
			"a file to each volume.",
		placeShop,
	},
	{
		"Volumes released, cleaned and published again",
		"The StatefulSet is deleted, and then its claims. The provisioners see their volumes Released, delete " +
			"them so that no claim can bind them, clean the disks and publish new volumes.",
		releaseShop,
	},
	{"The StatefulSet is created again", "New claims, on new volumes of the same disks:", place("shop.yaml")},
}

// noVolumes is a scheduler's reason for nodes that have no volumes for a pod.
const noVolumes = "didn't find available persistent volumes to bind"

// createNodes creates nodes, and volumes that only one node can use.
func createNodes(ctx context.Context, d *demo) error {
	nodes, err := load[*v1.Node]("nodes.yaml")
	if err != nil {
		return err
	}
	if err := d.cluster.AddNodes(ctx, nodes...); err != nil {
		return err
	}
	volumes, err := load[*v1.PersistentVolume]("volumes.yaml")
	if err != nil {
		return err
	}
	if err := d.create(ctx, "volumes.yaml"); err != nil {
		return err
	}
	for _, pv := range volumes {
		if err := d.watch.available(ctx, pv.Name); err != nil {
			return err
		}
	}
	table := newTable()
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

// place creates what a file of manifests describes, waits until its pods run, and prints which
// volumes their claims have.
func place(file string) func(context.Context, *demo) error {
	return func(ctx context.Context, d *demo) error {
		pods, err := podsOf(file)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := d.create(ctx, file); err != nil {
			return err
		}
		return d.printRunning(ctx, begin, pods...)
	}
}

// podsOf returns the names of the pods in a file of manifests, with those of StatefulSets.
func podsOf(file string) (names []string, err error) {
	objects, err := load[metav1.Object](file)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		switch typed := object.(type) {
		case *v1.Pod:
			names = append(names, typed.Name)
		case *appsv1.StatefulSet:
			for i := range *typed.Spec.Replicas {
				names = append(names, fmt.Sprintf("%s-%d", typed.Name, i))
			}
		}
	}
	return names, nil
}

// printRunning waits until the pods run, and prints their nodes and volumes.
func (d *demo) printRunning(ctx context.Context, begin time.Time, pods ...string) error {
	for _, name := range pods {
		pod, err := d.watch.running(ctx, name)
		if err != nil {
			return err
		}
		d.print("%s runs on %s", name, pod.Spec.NodeName)
		for _, name := range claimsOf(pod) {
			claim, err := d.watch.claims.Get(name)
			if err != nil {
				return err
			}
			d.print("- claim %s requests %s and has volume %s of %s", name, claim.Spec.Resources.Requests.Storage(),
				short(claim.Spec.VolumeName), claim.Status.Capacity.Storage())
		}
	}
	d.print("(%d ms from the first object created to the last pod seen running)", time.Since(begin).Milliseconds())
	return nil
}

// placeJoint has two schedulers in turn place one pod, with the same claims and the same volumes:
// matching one claim after the other fails.
func placeJoint(ctx context.Context, d *demo) error {
	pods, err := load[*v1.Pod]("joint.yaml")
	if err != nil {
		return err
	}
	if err := d.create(ctx, "joint.yaml"); err != nil {
		return err
	}
	client := d.cluster.Client().CoreV1().Pods(namespace)
	for _, pod := range pods {
		message, err := d.watch.rejected(ctx, pod.Name, stock, noVolumes)
		if err != nil {
			return err
		}
		d.quote(message)
		d.print("The same pod with schedulerName: %s, whose claims are matched together:", stowage)
		if err := client.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := d.watch.gone(ctx, pod.Name); err != nil {
			return err
		}
		begin := time.Now()
		pod.Spec.SchedulerName = stowage
		if _, err := client.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := d.printRunning(ctx, begin, pod.Name); err != nil {
			return err
		}
	}
	return nil
}

// showRejection prints the reason that the owner of a pod sees.
func showRejection(ctx context.Context, d *demo) error {
	if err := d.create(ctx, "refused.yaml"); err != nil {
		return err
	}
	message, err := d.watch.rejected(ctx, "archive", stowage, noVolumes)
	if err != nil {
		return err
	}
	d.quote(message)
	d.print("It waits, and is queued again when a volume appears that could fit.")
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

// manifests are the objects of the demo, as a user would apply them.
//
//go:embed manifests/*.yaml
var manifests embed.FS

// create creates what a file of manifests describes.
func (d *demo) create(ctx context.Context, file string) error {
	return d.cluster.CreateFiles(ctx, filepath.Join("hack/demo/manifests", file))
}

// load reads the objects of one type from a file of manifests.
func load[T any](name string) ([]T, error) {
	data, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		return nil, err
	}
	list, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var of []T
	for _, object := range list {
		if typed, ok := object.(T); ok {
			of = append(of, typed)
		}
	}
	return of, nil
}

// decode reads YAML documents of known kinds. Unknown and repeated fields are errors.
func decode(data []byte) ([]runtime.Object, error) {
	objects, err := cluster.Objects(data)
	if err != nil {
		return nil, err
	}
	var list []runtime.Object
	for _, object := range objects {
		typed, err := scheme.Scheme.New(object.GroupVersionKind())
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			return nil, err
		}
		list = append(list, typed)
	}
	return list, nil
}

func newTable() *tabwriter.Writer { return tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0) }
