// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

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
		"Each requests 10Gi for data and 1Gi for its log, and both volumes must be on one node. The\n" +
			"tightest fit comes first, the zones take turns.",
		place("statefulset.yaml", "db"),
	},
	{
		"A pod that the stock scheduler cannot place",
		"ledger has two claims: journal requests 1Gi, index requests 2Gi of tier gold. node-b has\n" +
			"b-2gi-gold and b-5gi. The smaller claim, matched first, takes the only gold volume. Event\n" +
			"of kube-scheduler:",
		placeJoint,
	},
	{
		"A pod that cannot be placed",
		"archive requests 50Gi, and no node has a volume of that size. kubectl describe pod archive:",
		showRejection,
	},
	{
		"A volume reserved for a claim by hand",
		"The claimRef of c-20gi-kept names claim photos, which requests 3Gi. d-8gi would fit\n" +
			"better, but a volume that names the claim comes first.",
		place("prebound.yaml", "album"),
	},
	{
		"A class whose volumes are provisioned on demand, in one zone only",
		"Class zonal may provision in zone south only. The scheduler chooses the node, then an\n" +
			"external provisioner creates a volume in that node's zone.",
		place("dynamic.yaml", "inbox"),
	},
	{
		"Three nodes publish their own disks",
		"stowage-provisioner runs for node-a, node-b and node-c, as a pod of its DaemonSet would:\n" +
			"with the rights of manifests/provisioner, its admission policies, and a token of its node.\n" +
			"Plain folders, which share a file system, stand for disks.",
		publishDisks,
	},
	{
		"A StatefulSet on published volumes",
		"For the scheduler these are volumes like any others. Simulated pods write nothing, so the\n" +
			"demo writes a file to each volume.",
		placeShop,
	},
	{
		"Volumes released, cleaned and published again",
		"The StatefulSet is deleted, and then its claims. The provisioners see their volumes\n" +
			"Released, delete them so that no claim can bind them, clean the disks and publish new\n" +
			"volumes.",
		releaseShop,
	},
	{"The StatefulSet is created again", "New claims, on new volumes of the same disks:", place("shop.yaml", "shop")},
	{
		"Why archive waits",
		"The kubectl plugin runs the scheduler's code on what a user can read, and tries what would\n" +
			"help. kubectl stowage why archive:",
		ask("no fitting volume for claim history", "why", "archive"),
	},
	{"Where the storage is", "kubectl stowage map:", ask("archive", "map")},
}

// ask runs the kubectl plugin, and prints its output, which must contain a text.
func ask(want string, args ...string) func(context.Context, *demo) error {
	return func(ctx context.Context, d *demo) error {
		cmd := exec.CommandContext(ctx, d.programs.plugin, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+d.cluster.Kubeconfig(), "COLUMNS=97")
		out, err := cmd.CombinedOutput()
		fmt.Println()
		d.print("%s", strings.TrimSpace(string(out)))
		switch {
		case err != nil:
			return fmt.Errorf("kubectl stowage %s: %w", strings.Join(args, " "), err)
		case !strings.Contains(strings.Join(strings.Fields(string(out)), " "), want):
			return fmt.Errorf("the output of kubectl stowage %s does not have %q", strings.Join(args, " "), want)
		}
		return nil
	}
}

// createNodes creates nodes, and volumes that only one node can use.
func createNodes(ctx context.Context, d *demo) error {
	if err := d.create(ctx, "nodes.yaml", "volumes.yaml"); err != nil {
		return err
	}
	s, err := d.until(ctx, "the nodes to be Ready and their volumes Available", func(s state) error {
		var errs []error
		for name, node := range s.nodes {
			if !cluster.Schedulable(node) {
				errs = append(errs, fmt.Errorf("%s is not Ready", name))
			}
		}
		for name, pv := range s.volumes {
			if pv.Status.Phase != v1.VolumeAvailable {
				errs = append(errs, fmt.Errorf("volume %s is %s", name, pv.Status.Phase))
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	table := newTable("NODE", "ZONE", "VOLUMES")
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		node := s.nodes[name]
		volumes := slices.DeleteFunc(slices.Sorted(maps.Keys(s.volumes)), func(pv string) bool { return volume.CheckNodeAffinity(s.volumes[pv], node.Labels) != nil })
		table.row(name, node.Labels[v1.LabelTopologyZone], strings.Join(volumes, "  "))
	}
	return table.Flush()
}

// place creates what a file of manifests describes, waits until the claims of a pod, or of a
// StatefulSet's pods, are as wanted, and prints them.
func place(file, owner string) func(context.Context, *demo) error {
	return func(ctx context.Context, d *demo) error {
		begin := time.Now()
		if err := d.create(ctx, file); err != nil {
			return err
		}
		return d.printPlaced(ctx, begin, owner)
	}
}

// printPlaced waits until the claims of a pod, or of a StatefulSet's pods, are as wanted, and
// prints them.
func (d *demo) printPlaced(ctx context.Context, begin time.Time, owner string) error {
	s, err := d.until(ctx, owner+" to be placed", func(s state) error {
		var errs []error
		for claim, want := range wanted {
			if belongs(want.pod, owner) {
				errs = append(errs, s.checkClaim(claim))
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if err := s.table(func(pod string) bool { return belongs(pod, owner) }); err != nil {
		return err
	}
	d.print("(%d ms from the first object created to the last pod seen running)", took.Milliseconds())
	return nil
}

// belongs reports whether a pod has the name, or is of the StatefulSet with it.
func belongs(pod, owner string) bool { return pod == owner || strings.HasPrefix(pod, owner+"-") }

// placeJoint has two schedulers in turn place one pod, with the same claims and the same volumes:
// matching one claim after the other fails.
func placeJoint(ctx context.Context, d *demo) error {
	const name = "ledger"
	if err := d.create(ctx, "joint.yaml"); err != nil {
		return err
	}
	pod, err := d.printRejection(ctx, name)
	if err != nil {
		return err
	}
	d.print("The same pod with schedulerName: %s, whose claims are matched together:", stowage)
	client := d.cluster.Client().CoreV1().Pods(namespace)
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := d.gone(ctx, name); err != nil {
		return err
	}
	begin := time.Now()
	pod.ObjectMeta, pod.Spec.SchedulerName = metav1.ObjectMeta{Name: name}, stowage
	if _, err := client.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return d.printPlaced(ctx, begin, name)
}

// gone waits until a pod, or all pods of a StatefulSet, have been deleted.
func (d *demo) gone(ctx context.Context, owner string) error {
	_, err := d.until(ctx, owner+" to be deleted", func(s state) error {
		for pod := range s.pods {
			if belongs(pod, owner) {
				return fmt.Errorf("pod %s exists", pod)
			}
		}
		return nil
	})
	return err
}

// showRejection prints the reason that the owner of a pod sees.
func showRejection(ctx context.Context, d *demo) error {
	if err := d.create(ctx, "refused.yaml"); err != nil {
		return err
	}
	_, err := d.printRejection(ctx, "archive")
	d.print("It waits, and is queued again when a volume appears that could fit.")
	return err
}

// noVolumes is a scheduler's reason for nodes that have no volumes for a pod.
const noVolumes = "didn't find available persistent volumes to bind"

// printRejection waits until a scheduler has rejected a pod because it found no volumes, and prints
// its message.
func (d *demo) printRejection(ctx context.Context, pod string) (*v1.Pod, error) {
	s, err := d.until(ctx, pod+" to be rejected", func(s state) error {
		switch p := s.pods[pod]; {
		case p == nil:
			return errors.New("it does not exist")
		case p.Spec.NodeName != "" || !strings.Contains(rejection(p), noVolumes):
			return fmt.Errorf("it is on node %q; the scheduler reports: %s", p.Spec.NodeName, rejection(p))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.print("| %s", rejection(s.pods[pod]))
	return s.pods[pod], nil
}

// create creates what files of manifests describe.
func (d *demo) create(ctx context.Context, files ...string) error {
	for _, file := range files {
		if err := d.cluster.CreateFiles(ctx, filepath.Join("hack/demo/manifests", file)); err != nil {
			return err
		}
	}
	return nil
}

// table is a table on standard output.
type table struct{ *tabwriter.Writer }

func newTable(head ...string) table {
	t := table{tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)}
	t.row(head...)
	return t
}

func (t table) row(cells ...string) { fmt.Fprintln(t, indent+strings.Join(cells, "\t")) }
