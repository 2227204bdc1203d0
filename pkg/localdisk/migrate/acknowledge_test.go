// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
)

// reportPages are the pages of a node's report.
type reportPages map[string]*stowage.LocalDiskReport

func (r reportPages) Get(_ context.Context, name string, _ metav1.GetOptions) (*stowage.LocalDiskReport, error) {
	if report := r[name]; report != nil {
		return report.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(stowage.SchemeGroupVersion.WithResource("localdiskreports").GroupResource(), name)
}

func (r reportPages) List(_ context.Context, _ metav1.ListOptions) (*stowage.LocalDiskReportList, error) {
	list := &stowage.LocalDiskReportList{}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(r))) {
		list.Items = append(list.Items, *r[name].DeepCopy())
	}
	return list, nil
}

func (r reportPages) Update(_ context.Context, report *stowage.LocalDiskReport, _ metav1.UpdateOptions) (*stowage.LocalDiskReport, error) {
	if r[report.Name].ResourceVersion != report.ResourceVersion {
		return nil, apierrors.NewConflict(stowage.SchemeGroupVersion.WithResource("localdiskreports").GroupResource(), report.Name, errors.New("changed"))
	}
	r[report.Name] = report
	return report, nil
}

func reportPage(node string, n int32, entries ...stowage.Entry) *stowage.LocalDiskReport {
	return &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: stowage.PageName(node, n), ResourceVersion: "1"},
		Spec:       stowage.LocalDiskReportSpec{NodeName: node, Page: n}, Status: stowage.LocalDiskReportStatus{Entries: entries},
	}
}

// keptPages are the pages of two nodes. Node n3 has only the second one, whose first was deleted.
func keptPages() reportPages {
	first := reportPage("n1", 1,
		stowage.Entry{Name: "a", Class: "fast", Reason: "OtherCluster", Acknowledgement: "id-a/uid"},
		stowage.Entry{Name: "b", Class: "fast", Reason: "NotEmpty"},
		stowage.Entry{Name: "e", Class: "fast", Reason: "NotEmpty", Acknowledgement: "id-e/boot/mount:1"},
		stowage.Entry{Name: "c", Class: "fast", Reason: "VolumeVanished", Acknowledgement: "id-c/uid"},
	)
	first.Annotations = map[string]string{wellknown.PublishRetainedAnnotation: "id-z/uid, id-c/uid"}
	pages := reportPages{}
	for _, page := range []*stowage.LocalDiskReport{
		first,
		reportPage("n1", 2, stowage.Entry{Name: "d", Class: "slow", Reason: "VolumeVanished", Acknowledgement: "id-d/uid"}),
		reportPage("n2", 1, stowage.Entry{Name: "f", Class: "slow", Reason: "OtherCluster", Acknowledgement: "id-f/uid"}),
		reportPage("n3", 2, stowage.Entry{Name: "g", Class: "slow", Reason: "OtherCluster", Acknowledgement: "id-g/uid"}),
	} {
		pages[page.Name] = page
	}
	return pages
}

func TestAcknowledge(t *testing.T) {
	for name, test := range map[string]struct {
		options KeptOptions
		found   map[string][]string // by node; a node without any is in it, too
		known   int
		want    map[string]string // annotations by node
	}{
		"for every reason": {
			KeptOptions{Nodes: []string{"n1"}}, map[string][]string{"n1": {"a", "d"}}, 1, map[string]string{"n1": "id-z/uid,id-c/uid,id-a/uid,id-d/uid"}},
		"for one reason": {
			KeptOptions{Nodes: []string{"n1"}, Reasons: []string{"OtherCluster"}}, map[string][]string{"n1": {"a"}}, 0, map[string]string{"n1": "id-z/uid,id-c/uid,id-a/uid"}},
		"for disks that were never a volume, only by name": {
			KeptOptions{Nodes: []string{"n1"}, Reasons: []string{"NotEmpty"}}, map[string][]string{"n1": {"e"}}, 0, map[string]string{"n1": "id-z/uid,id-c/uid,id-e/boot/mount:1"}},
		"for two reasons": {
			KeptOptions{Nodes: []string{"n1"}, Reasons: []string{"OtherCluster", "VolumeVanished"}},
			map[string][]string{"n1": {"a", "d"}}, 1, map[string]string{"n1": "id-z/uid,id-c/uid,id-a/uid,id-d/uid"}},
		"of a class": {
			KeptOptions{Nodes: []string{"n1"}, Classes: []string{"fast", "else"}}, map[string][]string{"n1": {"a"}}, 1, map[string]string{"n1": "id-z/uid,id-c/uid,id-a/uid"}},
		"of two nodes, one named twice": {
			KeptOptions{Nodes: []string{"n2", "n1", "n2"}}, map[string][]string{"n1": {"a", "d"}, "n2": {"f"}}, 1,
			map[string]string{"n1": "id-z/uid,id-c/uid,id-a/uid,id-d/uid", "n2": "id-f/uid"}},
		"of all nodes that have a first page": {
			KeptOptions{}, map[string][]string{"n1": {"a", "d"}, "n2": {"f"}}, 1,
			map[string]string{"n1": "id-z/uid,id-c/uid,id-a/uid,id-d/uid", "n2": "id-f/uid"}},
		"of a class on all nodes": {
			KeptOptions{Classes: []string{"slow"}, Reasons: []string{"OtherCluster"}}, map[string][]string{"n1": nil, "n2": {"f"}}, 0,
			map[string]string{"n1": "id-z/uid,id-c/uid", "n2": "id-f/uid"}},
	} {
		t.Run(name, func(t *testing.T) {
			pages := keptPages()
			kept, err := FindKept(t.Context(), pages, test.options)
			if err != nil {
				t.Fatal(err)
			}
			found, known := map[string][]string{}, 0
			for _, k := range kept {
				known += k.Acknowledged
				found[k.Node] = nil
				for _, e := range k.Entries {
					found[k.Node] = append(found[k.Node], e.Name)
				}
			}
			if diff := cmp.Diff(test.found, found); diff != "" || known != test.known {
				t.Errorf("%d acknowledged before, want %d; found (-want +got):\n%s", known, test.known, diff)
			}
			if diff := cmp.Diff(keptPages(), pages); diff != "" {
				t.Errorf("FindKept changed something:\n%s", diff)
			}
			got := map[string]string{}
			for i := range kept {
				if err := Acknowledge(t.Context(), pages, &kept[i]); err != nil {
					t.Fatal(err)
				}
				got[kept[i].Node] = strings.ReplaceAll(pages[kept[i].Node].Annotations[wellknown.PublishRetainedAnnotation], ", ", ",")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAcknowledgeRefuses(t *testing.T) {
	pages := keptPages()
	first := KeptOptions{Nodes: []string{"n1"}}
	kept, err := FindKept(t.Context(), pages, first)
	if err != nil {
		t.Fatal(err)
	}
	pages["n1"].ResourceVersion = "2"
	if err := Acknowledge(t.Context(), pages, &kept[0]); !errors.Is(err, ErrChanged) {
		t.Errorf("after a change: %v, want ErrChanged", err)
	}
	if _, err := FindKept(t.Context(), pages, KeptOptions{Nodes: []string{"n4"}}); err == nil || !strings.Contains(err.Error(), "node n4 has no LocalDiskReport") {
		t.Errorf("a node without a report: %v", err)
	}
	pages["n1"].Spec.NodeName = "n3"
	if _, err := FindKept(t.Context(), pages, first); err == nil || !strings.Contains(err.Error(), "is of node n3") {
		t.Errorf("the report of another node: %v", err)
	}
}
