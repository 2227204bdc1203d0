// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
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

func (r reportPages) Update(_ context.Context, report *stowage.LocalDiskReport, _ metav1.UpdateOptions) (*stowage.LocalDiskReport, error) {
	if r[report.Name].ResourceVersion != report.ResourceVersion {
		return nil, apierrors.NewConflict(stowage.SchemeGroupVersion.WithResource("localdiskreports").GroupResource(), report.Name, errors.New("changed"))
	}
	r[report.Name] = report
	return report, nil
}

func keptPages() reportPages {
	page := func(n int32, entries ...stowage.Entry) *stowage.LocalDiskReport {
		return &stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: stowage.PageName("n1", n), ResourceVersion: "1"},
			Spec:       stowage.LocalDiskReportSpec{NodeName: "n1", Page: n}, Status: stowage.LocalDiskReportStatus{Entries: entries},
		}
	}
	first := page(1,
		stowage.Entry{Name: "a", Reason: "OtherCluster", Acknowledgement: "id-a/uid"},
		stowage.Entry{Name: "b", Reason: "NotEmpty"},
		stowage.Entry{Name: "e", Reason: "NotEmpty", Acknowledgement: "id-e/boot/mount:1"},
		stowage.Entry{Name: "c", Reason: "VolumeVanished", Acknowledgement: "id-c/uid"},
	)
	first.Annotations = map[string]string{wellknown.PublishRetainedAnnotation: "id-z/uid, id-c/uid"}
	second := page(2, stowage.Entry{Name: "d", Reason: "VolumeVanished", Acknowledgement: "id-d/uid"})
	return reportPages{first.Name: first, second.Name: second}
}

func TestAcknowledge(t *testing.T) {
	for name, test := range map[string]struct {
		reasons []string
		found   []string
		known   int
		want    string
	}{
		"for every reason": {nil, []string{"a", "d"}, 1, "id-z/uid,id-c/uid,id-a/uid,id-d/uid"},
		"for one reason":   {[]string{"OtherCluster"}, []string{"a"}, 0, "id-z/uid,id-c/uid,id-a/uid"},
		"for disks that were never a volume, only by name": {[]string{"NotEmpty"}, []string{"e"}, 0, "id-z/uid,id-c/uid,id-e/boot/mount:1"},
		"for two reasons": {[]string{"OtherCluster", "VolumeVanished"}, []string{"a", "d"}, 1, "id-z/uid,id-c/uid,id-a/uid,id-d/uid"},
	} {
		t.Run(name, func(t *testing.T) {
			pages := keptPages()
			kept, err := FindKept(t.Context(), pages, "n1", test.reasons)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, e := range kept.Entries {
				found = append(found, e.Name)
			}
			if diff := cmp.Diff(test.found, found); diff != "" || kept.Acknowledged != test.known {
				t.Errorf("%d acknowledged before, want %d; found (-want +got):\n%s", kept.Acknowledged, test.known, diff)
			}
			if diff := cmp.Diff(keptPages(), pages); diff != "" {
				t.Errorf("FindKept changed something:\n%s", diff)
			}
			if err := Acknowledge(t.Context(), pages, kept); err != nil {
				t.Fatal(err)
			}
			if got := pages["n1"].Annotations[wellknown.PublishRetainedAnnotation]; got != test.want {
				t.Errorf("annotation %q, want %q", got, test.want)
			}
		})
	}
}

func TestAcknowledgeRefuses(t *testing.T) {
	pages := keptPages()
	kept, err := FindKept(t.Context(), pages, "n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	pages["n1"].ResourceVersion = "2"
	if err := Acknowledge(t.Context(), pages, kept); !errors.Is(err, ErrChanged) {
		t.Errorf("after a change: %v, want ErrChanged", err)
	}
	if _, err := FindKept(t.Context(), pages, "n2", nil); err == nil {
		t.Error("a node without a report: no error")
	}
	pages["n1"].Spec.NodeName = "n3"
	if _, err := FindKept(t.Context(), pages, "n1", nil); err == nil {
		t.Error("the report of another node: no error")
	}
}
