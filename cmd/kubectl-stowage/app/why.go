// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/inspect/why"
)

const whyDescription = `why says why a pod, a claim, a volume, a disk or a node is in its state: what it waits for, since when, and
what to do next.

Objects are named as in kubectl: KIND NAME, KIND/NAME, or NAME for a pod. A disk is
NODE/NAME, NODE/CLASS/NAME or NODE/PATH, as kubectl stowage map -o wide lists them, or a
LocalDisk, as kubectl get localdisks lists them.`

const whyExamples = `  kubectl stowage why db-0
  kubectl stowage why pvc data-db-0 -n db
  kubectl stowage why pv local-pv-node-a-3f2c
  kubectl stowage why disk node-a/local-disks/sdb
  kubectl stowage why disk node-a.02
  kubectl stowage why node node-a`

// whyKind is a kind of objects that why explains.
type whyKind struct {
	// names are what a user can write: the first is for messages.
	names []string
	run   func(*whyOptions, *cobra.Command, string) error
}

func whyKinds() []whyKind {
	of := func(kind string) func(*whyOptions, *cobra.Command, string) error {
		return func(o *whyOptions, cmd *cobra.Command, name string) error { return o.storage(cmd, kind, name) }
	}
	return []whyKind{
		{[]string{"pod", "pods", "po"}, (*whyOptions).pod},
		{[]string{"pvc", "pvcs", "persistentvolumeclaim", "persistentvolumeclaims", "claim", "claims"}, of(why.KindClaim)},
		{[]string{"pv", "pvs", "persistentvolume", "persistentvolumes", "volume", "volumes"}, of(why.KindVolume)},
		{[]string{"disk", "disks", "localdisk", "localdisks", "ld"}, of(why.KindDisk)},
		{[]string{"node", "nodes", "no"}, of(why.KindNode)},
	}
}

type whyOptions struct {
	*cluster
	output outputFlag
	whyPodOptions
}

func newWhyCommand(c *cluster) *cobra.Command {
	o := &whyOptions{cluster: c}
	cmd := &cobra.Command{
		Use: "why [KIND] NAME", Short: "Why a pod, claim, volume, disk or node waits, and what to do", Long: whyDescription, Example: whyExamples,
		ValidArgsFunction: o.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := whyArguments(args)
			if err != nil {
				return err
			}
			return kind.run(o, cmd, name)
		},
	}
	o.output.add(cmd)
	o.whyPodOptions.add(cmd)
	return cmd
}

// whyArguments returns the kind and the name of NAME, KIND NAME or KIND/NAME.
func whyArguments(args []string) (whyKind, string, error) {
	kinds := whyKinds()
	kind, name := "pod", ""
	switch len(args) {
	case 1:
		name = args[0]
		if before, after, found := strings.Cut(name, "/"); found {
			kind, name = before, after
		} else if slices.ContainsFunc(kinds, func(k whyKind) bool { return slices.Contains(k.names, strings.ToLower(name)) }) {
			return whyKind{}, "", fmt.Errorf("why %s: the name is missing: kubectl stowage why %s NAME", name, name)
		}
	case 2:
		kind, name = args[0], args[1]
	case 0:
		return whyKind{}, "", errors.New("why: the object is missing: kubectl stowage why [pod|pvc|pv|disk|node] NAME")
	default:
		return whyKind{}, "", fmt.Errorf("why: one object at a time: %s are too many arguments", strings.Join(args, " "))
	}
	for _, k := range kinds {
		switch {
		case !slices.Contains(k.names, strings.ToLower(kind)):
		case name == "":
			return whyKind{}, "", fmt.Errorf("why %s: the name is missing: kubectl stowage why %s NAME", kind, kind)
		default:
			return k, name, nil
		}
	}
	var known []string
	for _, k := range kinds {
		known = append(known, k.names[0])
	}
	return whyKind{}, "", fmt.Errorf("why: kind %q is unknown; known are %s", kind, format.List(known, len(known)))
}

// complete completes kinds and names.
func (o *whyOptions) complete(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ofKind := map[string]snapshot.Kind{
		"pod": snapshot.KindOf[*corev1.Pod](), "pvc": snapshot.KindOf[*corev1.PersistentVolumeClaim](),
		"pv": snapshot.KindOf[*corev1.PersistentVolume](), "node": snapshot.KindOf[*corev1.Node](), "disk": snapshot.KindOf[*stowage.LocalDisk](),
	}
	var all []cobra.Completion
	switch len(args) {
	case 0:
		for _, k := range whyKinds() {
			if strings.HasPrefix(k.names[0], prefix) {
				all = append(all, k.names[0])
			}
		}
		all = append(all, o.names(cmd.Context(), prefix, ofKind["pod"])...)
	case 1:
		for _, k := range whyKinds() {
			if kind, known := ofKind[k.names[0]]; known && slices.Contains(k.names, strings.ToLower(args[0])) {
				all = o.names(cmd.Context(), prefix, kind)
			}
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// storage explains a claim, a volume, a disk or a node.
func (o *whyOptions) storage(cmd *cobra.Command, kind, name string) error {
	q := why.StorageQuestion{Kind: kind, Name: name}
	if kind == why.KindClaim {
		namespace, err := o.namespace()
		if err != nil {
			return err
		}
		q.Namespace = namespace
	}
	var err error
	if q.Snapshot, err = o.readStorage(cmd.Context(), q); err != nil {
		return err
	}
	report, err := explainStorage(q, func(queries ...snapshot.Query) (*snapshot.Snapshot, error) { return o.read(cmd.Context(), queries...) })
	if err != nil {
		return o.notFound(cmd, err)
	}
	return o.output.print(cmd, report, func(p *printer) { printStorageReport(p, report) })
}

// explainStorage answers a question. The events of the objects that the answer is made of are read by name: there can be many
// others.
func explainStorage(q why.StorageQuestion, events func(...snapshot.Query) (*snapshot.Snapshot, error)) (*v1alpha1.StorageReport, error) {
	report, err := why.Storage(q)
	if err != nil {
		return nil, err
	}
	if q.Events, err = events(eventsOf(report)...); err != nil {
		return nil, err
	}
	return why.Storage(q)
}

// readStorage reads what a question is answered by: claims and pods of one namespace.
func (o *whyOptions) readStorage(ctx context.Context, q why.StorageQuestion) (*snapshot.Snapshot, error) {
	namespace := q.Namespace
	if q.Kind == why.KindVolume && o.from == "" {
		first, err := o.read(ctx, snapshot.Query{Kind: snapshot.KindOf[*corev1.PersistentVolume](), Fields: "metadata.name=" + q.Name})
		if err != nil {
			return nil, err
		}
		namespace = claimNamespace(first, q.Name)
	}
	var claims, others []snapshot.Query
	for _, kind := range why.StorageKinds() {
		if kind.Namespaced {
			claims = append(claims, snapshot.Query{Kind: kind, Namespace: namespace})
		} else {
			others = append(others, snapshot.Query{Kind: kind})
		}
	}
	if q.Kind == why.KindDisk && why.IsLocalDisk(q.Name) {
		others = append(others, snapshot.Query{Kind: snapshot.KindOf[*stowage.LocalDisk](), Fields: "metadata.name=" + q.Name})
	}
	if o.from != "" || q.Kind == why.KindClaim || q.Kind == why.KindVolume {
		return o.read(ctx, slices.Concat(claims, others)...)
	}
	// A node's answer has neither claims nor pods, and a disk's has those of the claim of its volume.
	s, err := o.read(ctx, others...)
	if err != nil || q.Kind != why.KindDisk {
		return s, err
	}
	q.Snapshot = s
	report, err := why.Storage(q)
	if err != nil {
		return s, nil // the error of the answer
	}
	i := slices.IndexFunc(report.Related, func(r v1alpha1.Related) bool { return r.Kind == why.KindVolume })
	if i < 0 || claimNamespace(s, report.Related[i].Name) == "" {
		return s, nil
	}
	for j := range claims {
		claims[j].Namespace = claimNamespace(s, report.Related[i].Name)
	}
	used, err := o.read(ctx, claims...)
	if err != nil {
		return nil, err
	}
	return snapshot.Merge(s, used), nil
}

// claimNamespace returns the namespace of the claim of a volume; empty if it has none.
func claimNamespace(s *snapshot.Snapshot, volume string) string {
	pv := snapshot.Find[*corev1.PersistentVolume](s, "", volume)
	if pv == nil || pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.Namespace
}

// notFound completes the error for a claim that exists in another namespace.
func (o *whyOptions) notFound(cmd *cobra.Command, err error) error {
	missing := &why.NotFoundError{}
	if !errors.As(err, &missing) || missing.Kind != why.KindClaim || o.from != "" {
		return err
	}
	s, readErr := o.read(cmd.Context(), snapshot.Query{Kind: snapshot.KindOf[*corev1.PersistentVolumeClaim](), Fields: "metadata.name=" + missing.Name})
	if readErr != nil || len(snapshot.Of[*corev1.PersistentVolumeClaim](s)) == 0 {
		return err
	}
	_, err = why.Storage(why.StorageQuestion{Snapshot: s, Kind: missing.Kind, Namespace: missing.Namespace, Name: missing.Name})
	return err
}

// eventsOf returns the queries for the events of a report.
func eventsOf(report *v1alpha1.StorageReport) []snapshot.Query {
	var all []snapshot.Query
	for _, object := range why.Observed(report) {
		all = append(all, snapshot.Query{
			Kind: snapshot.KindOf[*corev1.Event](), Namespace: cmp.Or(object.Namespace, corev1.NamespaceDefault),
			Fields: fmt.Sprintf("involvedObject.kind=%s,involvedObject.name=%s", object.Kind, object.Name),
		})
	}
	return all
}

// printStorageReport prints a report as paragraphs and tables.
func printStorageReport(p *printer, r *v1alpha1.StorageReport) {
	p.paragraph(strings.Join(r.Sentences, " "), "")
	if r.WaitsFor != nil || len(r.Next) > 0 || len(r.Links) > 0 {
		fmt.Fprintln(p)
	}
	if r.WaitsFor != nil {
		p.labelled("Waits for:", r.WaitsFor.Text)
	}
	p.labelled("Next:", r.Next...)
	p.labelled("See:", r.Links...)
	if len(r.Related) > 0 {
		fmt.Fprintln(p)
		table := [][]string{{"KIND", "NAME", "RELATION", "STATE"}}
		for _, related := range r.Related {
			table = append(table, []string{related.Kind, objectName(related.Reference), related.Relation, related.State})
		}
		p.table(table)
	}
	if len(r.Events) > 0 {
		fmt.Fprintln(p)
		table := [][]string{{"EVENT", "OF", "REASON", "MESSAGE"}}
		for _, event := range r.Events {
			when := format.Time(event.Last.Time)
			if r.Time != nil {
				when = format.Age(event.Last.Time, r.Time.Time)
			}
			if event.Count > 1 {
				when += fmt.Sprintf(" (x%d)", event.Count)
			}
			table = append(table, []string{when, objectName(event.Object), event.Reason, event.Message})
		}
		p.table(table)
	}
	p.unseen(r.Unseen)
}

// labelled prints texts beside a label.
func (p *printer) labelled(label string, texts ...string) {
	const column = 11
	for _, text := range texts {
		for _, line := range wrap(text, p.width-column) {
			fmt.Fprintf(p, "%-*s%s\n", column, label, line)
			label = ""
		}
	}
}

func objectName(r v1alpha1.Reference) string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}
