// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// onRealNodes is the story on nodes that run pods.
var onRealNodes = play{start: startReal, story: realStory, conclude: concludeReal}

var realStory = []step{
	{"Two real nodes, each with a disk", tellRealNodes},
	{"Stowage is installed, and disks become volumes", tellInstalled},
	{"A StatefulSet whose pods write", tellLetters},
	{"A pod is deleted, and the next one finds its data", tellDeleted},
	{"Volumes given back, cleaned and published again", tellCleaned},
	{"The next tenant sees nothing", tellTenant},
}

func tellRealNodes(ctx context.Context, d *demo) error {
	d.say("Each runs containerd, kubelet and kube-proxy, in namespaces of its own on this machine.")
	nodes, err := d.cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "%sNODE\tKUBELET\tRUNTIME\tDISK\n", indent)
	for _, node := range nodes.Items {
		info := node.Status.NodeInfo
		fmt.Fprintf(table, "%s%s\t%s\t%s\text4 at %s\n", indent, node.Name, info.KubeletVersion, info.ContainerRuntimeVersion, realDisk)
	}
	return table.Flush()
}

// tellInstalled installs by the command of docs/install.md, and shows what agents publish.
func tellInstalled(ctx context.Context, d *demo) error {
	d.say("kubectl apply --server-side -k %s", overlay)
	if _, err := d.kubectl(ctx, "apply", "--server-side", "-k", overlay); err != nil {
		return err
	}
	for _, workload := range [][]string{
		{"kube-system", "deployment/stowage-scheduler"},
		{"stowage-system", "deployment/stowage-controller"},
		{"stowage-system", "daemonset/stowage-provisioner"},
	} {
		if _, err := d.kubectl(ctx, "rollout", "status", "--timeout="+realPatience.String(), "-n", workload[0], workload[1]); err != nil {
			return err
		}
	}
	var volumes []*v1.PersistentVolume
	if err := d.watch.until(ctx, "each node has a volume", func() (bool, error) {
		volumes, _ = d.watch.volumes.List(labels.Everything()) // never fails
		volumes = slices.DeleteFunc(volumes, func(pv *v1.PersistentVolume) bool { return pv.Status.Phase != v1.VolumeAvailable })
		return len(volumes) == len(realNodes), nil
	}, func() string { return fmt.Sprintf("; there are %d", len(volumes)) }); err != nil {
		return err
	}
	table := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "%sNODE\tDISK\tVOLUME\tSIZE\n", indent)
	slices.SortFunc(volumes, func(a, b *v1.PersistentVolume) int { return strings.Compare(nodeOf(a), nodeOf(b)) })
	for _, pv := range volumes {
		size := pv.Spec.Capacity[v1.ResourceStorage]
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\n", indent, nodeOf(pv), localpv.PathOf(pv), short(pv.Name), size.String())
	}
	return table.Flush()
}

// concludeReal shows how the story has ended. Its steps have checked it.
func concludeReal(ctx context.Context, d *demo) error {
	s, err := read(ctx, d.cluster.Client())
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nWho has what\n\n")
	return s.table(d.out)
}
