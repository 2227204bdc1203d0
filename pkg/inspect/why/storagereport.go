// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// The kinds of subjects. A Pod has a PodReport, the others a StorageReport.
const (
	KindPod    = "Pod"
	KindClaim  = "PersistentVolumeClaim"
	KindVolume = "PersistentVolume"
	KindDisk   = "Disk"
	KindNode   = "Node"
)

// StorageQuestion is the question what a claim, a volume, a disk or a node waits for.
type StorageQuestion struct {
	Snapshot *snapshot.Snapshot
	// Events has the events of the subject and of related objects; nil if there are none.
	Events *snapshot.Snapshot
	// Kind is one of the kinds of subjects. A disk is named NODE/NAME, NODE/CLASS/NAME, or NODE/PATH, or as its LocalDisk.
	Kind            string
	Namespace, Name string
}

// NotFoundError is an unknown subject.
type NotFoundError struct {
	Kind, Namespace, Name string
	// Hint is what to try instead.
	Hint string
}

// Error returns one line.
func (e *NotFoundError) Error() string {
	what := map[string]string{KindPod: "pod", KindClaim: "claim", KindVolume: "volume", KindDisk: "disk", KindNode: "node"}[e.Kind]
	text := fmt.Sprintf("there is no %s %q", what, e.Name)
	if e.Namespace != "" {
		text += fmt.Sprintf(" in namespace %s", e.Namespace)
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Storage answers the question. An error is a NotFoundError, or a name that is not unique.
func Storage(q StorageQuestion) (*v1alpha1.StorageReport, error) {
	x := &explainer{
		s: q.Snapshot, now: q.Snapshot.Time, reports: localdisks.Read(q.Snapshot),
		report: &v1alpha1.StorageReport{
			TypeMeta: v1alpha1.Type("StorageReport"), Sentences: []string{},
			Subject: v1alpha1.Reference{Kind: q.Kind, Namespace: q.Namespace, Name: q.Name},
		},
	}
	if !x.now.IsZero() {
		x.report.Time = &metav1.Time{Time: x.now}
	}
	var err error
	switch q.Kind {
	case KindClaim:
		err = x.claim(q.Namespace, q.Name)
	case KindVolume:
		err = x.volume(q.Name)
	case KindDisk:
		err = x.disk(q.Name)
	case KindNode:
		err = x.node(q.Name)
	default:
		err = fmt.Errorf("kind %q is none of %s, %s, %s, %s", q.Kind, KindClaim, KindVolume, KindDisk, KindNode)
	}
	if err != nil {
		return nil, err
	}
	if w := x.report.WaitsFor; w != nil {
		w.Text = waitText(w)
	}
	if q.Events != nil {
		x.events(q.Events)
	}
	x.unseen(q.Snapshot, q.Events)
	return x.report, nil
}

// explainer composes a report.
type explainer struct {
	s       *snapshot.Snapshot
	now     time.Time
	reports *localdisks.Reports
	report  *v1alpha1.StorageReport
	hosts   map[string]string // nodes by hostname, once they are needed
}

// provisioners returns the namespace of the provisioners; that of the manifests if none of their pods is seen.
func (x *explainer) provisioners() string {
	for _, pod := range snapshot.Of[*corev1.Pod](x.s) {
		if pod.Labels["app.kubernetes.io/name"] == "stowage-provisioner" {
			return pod.Namespace
		}
	}
	return "stowage-system"
}

func (x *explainer) say(text string, args ...any) {
	x.report.Sentences = append(x.report.Sentences, fmt.Sprintf(text, args...))
}

// next adds what the reader can do. Each step counts once.
func (x *explainer) next(text string, args ...any) {
	if step := fmt.Sprintf(text, args...); !slices.Contains(x.report.Next, step) {
		x.report.Next = append(x.report.Next, step)
	}
}

func (x *explainer) link(links ...string) {
	for _, link := range links {
		if link != "" && !slices.Contains(x.report.Links, link) {
			x.report.Links = append(x.report.Links, link)
		}
	}
}

// wait sets what is waited for, unless that is set already: what was found first is what has to happen first.
func (x *explainer) wait(w v1alpha1.Wait) {
	if x.report.WaitsFor == nil {
		x.report.WaitsFor = &w
	}
}

func (x *explainer) relate(kind, namespace, name, relation, state string) {
	r := v1alpha1.Related{Reference: v1alpha1.Reference{Kind: kind, Namespace: namespace, Name: name}, Relation: relation, State: state}
	if !slices.ContainsFunc(x.report.Related, func(other v1alpha1.Related) bool { return other.Reference == r.Reference }) {
		x.report.Related = append(x.report.Related, r)
	}
}

// state sets the state, and since when it holds; since may be nil.
func (x *explainer) state(state string, since *metav1.Time) {
	x.report.State = state
	if since != nil && !since.IsZero() {
		x.report.Since = since
	}
}

// since returns " (for 3h)", or " (since 2026-01-02 03:04:05 UTC)"; empty for an unknown time.
func (x *explainer) since(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return " (" + format.Since(t.Time, x.now) + ")"
}

// unseen adds what could not be read, each once.
func (x *explainer) unseen(all ...*snapshot.Snapshot) {
	for _, s := range all {
		if s == nil {
			continue
		}
		for _, gap := range s.Gaps {
			if !slices.Contains(x.report.Unseen, gap.String()) && slices.ContainsFunc(StorageKinds(), func(k snapshot.Kind) bool { return k.Resource.GroupResource().String() == gap.Resource }) {
				x.report.Unseen = append(x.report.Unseen, gap.String())
			}
		}
	}
	slices.Sort(x.report.Unseen)
}

// maxEvents bounds the events of a report.
const maxEvents = 10

// events adds the newest events of the subject and of related objects.
func (x *explainer) events(s *snapshot.Snapshot) {
	subjects := map[v1alpha1.Reference]bool{}
	for _, r := range Observed(x.report) {
		subjects[r] = true
	}
	for _, event := range snapshot.Of[*corev1.Event](s) {
		of := event.InvolvedObject
		object := v1alpha1.Reference{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}
		if of.Kind == KindVolume || of.Kind == KindNode || strings.HasPrefix(of.Kind, "Pav") {
			object.Namespace = "" // some components set it, although these kinds have none
		}
		if !subjects[object] {
			continue
		}
		x.report.Events = append(x.report.Events, v1alpha1.EventLine{
			Object: object, Last: lastOf(event), Count: countOf(event), Type: event.Type, Reason: event.Reason, Message: event.Message,
			From: cmp.Or(event.ReportingController, event.Source.Component), Link: guide.Link(event.Reason, sectionsOf(of.Kind)...),
		})
	}
	slices.SortStableFunc(x.report.Events, func(a, b v1alpha1.EventLine) int {
		return cmp.Or(b.Last.Compare(a.Last.Time), cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Reason, b.Reason))
	})
	x.report.Events = x.report.Events[:min(len(x.report.Events), maxEvents)]
}

// Observed returns the objects whose events a report has: the subject, and related ones.
func Observed(report *v1alpha1.StorageReport) []v1alpha1.Reference {
	const most = 8
	all := []v1alpha1.Reference{report.Subject}
	for _, r := range report.Related {
		switch r.Kind {
		case KindClaim, KindVolume, "Pod", "PavVolume", "PavStaging":
			if len(all) < most && !slices.Contains(all, r.Reference) {
				all = append(all, r.Reference)
			}
		}
	}
	return slices.DeleteFunc(all, func(r v1alpha1.Reference) bool { return r.Kind == KindDisk })
}

// lastOf returns when an event was last observed.
func lastOf(event *corev1.Event) metav1.Time {
	switch {
	case event.Series != nil:
		return metav1.Time{Time: event.Series.LastObservedTime.Time}
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp
	case !event.EventTime.IsZero():
		return metav1.Time{Time: event.EventTime.Time}
	}
	return event.CreationTimestamp
}

func countOf(event *corev1.Event) int32 {
	if event.Series != nil {
		return event.Series.Count
	}
	return max(event.Count, 1)
}

// sectionsOf returns the sections that explain events of a kind.
func sectionsOf(kind string) []guide.Section {
	switch kind {
	case KindVolume, KindNode:
		return []guide.Section{guide.ProvisionerEvents, guide.Reasons, guide.ControllerEvents, guide.PavVolumes}
	case KindClaim:
		return []guide.Section{guide.ControllerEvents, guide.PavVolumes, guide.PavStagings}
	case "PavVolume":
		return []guide.Section{guide.PavVolumes}
	case "PavStaging":
		return []guide.Section{guide.PavStagings}
	}
	return nil
}
