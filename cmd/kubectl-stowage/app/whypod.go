// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/inspect/why"
)

// whyPodOptions are the flags of why that pods use.
type whyPodOptions struct{ configuration string }

func (o *whyPodOptions) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.configuration, "config", "", "for pods: file with the KubeSchedulerConfiguration of the pod's scheduler; default the ConfigMap of the scheduler in namespace kube-system, or ConfigMap stowage-scheduler-config, if it can be read, else the defaults")
}

// pod explains a pod.
func (o *whyOptions) pod(cmd *cobra.Command, name string) error {
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	first, err := o.read(cmd.Context(), snapshot.Query{Kind: snapshot.KindOf[*corev1.Pod](), Namespace: namespace, Fields: "metadata.name=" + name})
	if err != nil {
		return err
	}
	pod := snapshot.Find[*corev1.Pod](first, namespace, name)
	switch {
	case pod == nil && !snapshot.Complete[*corev1.Pod](first):
		return fmt.Errorf("you may not list pods in namespace %s, so nothing can be said about pod %q", namespace, name)
	case pod == nil:
		return &why.NotFoundError{Kind: why.KindPod, Namespace: namespace, Name: name, Hint: o.otherPods(cmd, namespace, name)}
	}
	queries := schedulingQueries()
	if pod.Spec.NodeName != "" {
		queries = placedQueries(namespace)
	}
	s, err := o.read(cmd.Context(), queries...)
	if err != nil {
		return err
	}
	report, err := explainPod(cmd.Context(), s, pod, simulators(cmd.Context(), s, o.configuration))
	if err != nil {
		return err
	}
	return o.output.print(cmd, report, func(p *printer) { printPodReport(p, report) })
}

// explainPod answers why a pod waits, on a snapshot with what schedulingQueries or placedQueries read.
func explainPod(ctx context.Context, s *snapshot.Snapshot, pod *corev1.Pod, scheduler func(name string) (*simulator, error)) (*inspect.PodReport, error) {
	q := why.PodQuestion{Snapshot: s, Pod: pod}
	if pod.Spec.NodeName == "" {
		of, err := scheduler(pod.Spec.SchedulerName)
		if err != nil {
			return nil, err
		}
		q.Simulator, q.Profile, q.Extenders = of.Simulator, of.source, of.extenders
	}
	return why.Pod(ctx, q)
}

// placedQueries returns what is read for a pod that has a node.
func placedQueries(namespace string) []snapshot.Query {
	var all []snapshot.Query
	for _, k := range why.StorageKinds() {
		query := snapshot.Query{Kind: k}
		if k.Namespaced {
			query.Namespace = namespace
		}
		all = append(all, query)
	}
	return all
}

// otherPods is a hint for a pod that does not exist.
func (o *whyOptions) otherPods(cmd *cobra.Command, namespace, name string) string {
	s, err := o.read(cmd.Context(), snapshot.Query{Kind: snapshot.KindOf[*corev1.Pod]()})
	if err != nil {
		return ""
	}
	var names, namespaces []string
	for _, other := range snapshot.Of[*corev1.Pod](s) {
		if other.Namespace == namespace {
			names = append(names, other.Name)
		} else if other.Name == name {
			namespaces = append(namespaces, other.Namespace)
		}
	}
	if len(namespaces) > 0 {
		return "it is in namespace " + format.List(namespaces, 3) + ": add -n NAMESPACE"
	}
	if similar := format.Similar(name, names); len(similar) > 0 {
		return "similar are " + format.List(similar, 3)
	}
	return ""
}

// mostGroups bounds the groups of nodes of the table.
const mostGroups = 20

// printPodReport prints a report as paragraphs and tables.
func printPodReport(p *printer, r *inspect.PodReport) {
	p.paragraph(r.Sentence, "")
	if len(r.Changes) > 0 {
		fmt.Fprintln(p)
		fmt.Fprintln(p, "Each of these changes would help, the smallest first:")
		for _, c := range r.Changes {
			p.paragraph("- "+c.Text, "  ")
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintln(p)
		p.paragraph(note, "")
	}
	if len(r.Claims) > 0 {
		fmt.Fprintln(p)
		table := [][]string{{"CLAIM", "CLASS", "REQUEST", "STATE"}}
		for _, c := range r.Claims {
			table = append(table, []string{c.Name, c.Class, c.Request, c.State})
		}
		p.table(table)
	}
	table := [][]string{{"NODES", "PLUGIN", "REASON"}}
	for _, reason := range r.Everywhere {
		table = append(table, []string{"all", reason.Plugin, reason.Message})
	}
	for i, g := range r.Groups {
		if i == mostGroups {
			table = append(table, []string{fmt.Sprintf("%d more", nodesIn(r.Groups[i:])), "", "see -o json"})
			break
		}
		table = append(table, groupRows(g, r)...)
	}
	if len(table) > 1 {
		fmt.Fprintln(p)
		p.table(table)
	}
	if link := linkOf(r); link != "" {
		fmt.Fprintln(p)
		fmt.Fprintln(p, "See:", link)
	}
	if r.State != inspect.PodUnknown { // whose sentence has it
		p.unseen(r.Unseen)
	}
}

// groupRows returns the rows of a group of nodes.
func groupRows(g inspect.NodeGroup, r *inspect.PodReport) [][]string {
	nodes := format.List(g.Nodes, 2)
	if len(g.Nodes) > 2 {
		nodes = fmt.Sprintf("%s and %d more", g.Nodes[0], len(g.Nodes)-1)
	}
	if len(g.Reasons) == 0 {
		fits := "fits"
		switch {
		case r.State == inspect.PodUnknown:
			fits = "no reason in what could be read"
		case len(r.Everywhere) > 0:
			fits = "no other reason"
		}
		return [][]string{{nodes, "", fits}}
	}
	var rows [][]string
	for _, r := range g.Reasons {
		text := strings.TrimPrefix(r.Message, "node(s) ")
		if r.Claim != "" {
			text = "claim " + r.Claim + ": " + text
		}
		if r.Detail != "" {
			text += ": " + r.Detail
		}
		rows = append(rows, []string{nodes, r.Plugin, text})
		nodes = `"`
	}
	return rows
}

func nodesIn(groups []inspect.NodeGroup) int {
	sum := 0
	for _, g := range groups {
		sum += len(g.Nodes)
	}
	return sum
}

// linkOf returns the first link of the reasons.
func linkOf(r *inspect.PodReport) string {
	for _, reason := range r.Everywhere {
		if reason.Link != "" {
			return reason.Link
		}
	}
	for _, g := range r.Groups {
		for _, reason := range g.Reasons {
			if reason.Link != "" {
				return reason.Link
			}
		}
	}
	return ""
}
