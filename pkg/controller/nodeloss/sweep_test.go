// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
)

// pageOf is an old page of the report of node a.
func pageOf(page int32) *stowage.LocalDiskReport {
	long := metav1.NewTime(time.Now().Add(-2 * obsoleteAfter))
	return &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: stowage.PageName("a", page), UID: "uid", ResourceVersion: "7", CreationTimestamp: long},
		Spec:       stowage.LocalDiskReportSpec{NodeName: "a", Page: page},
		Status:     stowage.LocalDiskReportStatus{LastTransitionTime: &long, Entries: []stowage.Entry{{Identity: "wwn:1", State: stowage.EntryAvailable}}},
	}
}

// TestObsoleteReports: which reports are obsolete.
func TestObsoleteReports(t *testing.T) {
	t.Parallel()
	tombstone := []stowage.Tombstone{{Identity: "wwn:1", State: stowage.TombstonePublished}}
	remembered, fresh := pageOf(1), pageOf(1)
	remembered.Status.Tombstones = tombstone
	fresh.Status.LastTransitionTime = &metav1.Time{Time: time.Now().Add(-time.Minute)}
	emptied := pageOf(1) // of tombstones that were moved, by a controller of an earlier version that had created it
	emptied.Status = stowage.LocalDiskReportStatus{}
	for name, tc := range map[string]struct {
		first  *stowage.LocalDiskReport // nil: there is only the second page
		node   bool
		volume *corev1.PersistentVolume
		want   bool
	}{
		"its node is gone":                     {first: pageOf(1), want: true},
		"its node is gone, and its first page": {want: true},
		"it had tombstones only, and has none": {first: emptied, want: true},
		"its node is there":                    {first: pageOf(1), node: true},
		"a volume of the node is left":         {first: pageOf(1), volume: ownedVolume("pv", "a", "wwn:1")},
		"a volume of another node is left":     {first: pageOf(1), volume: ownedVolume("pv", "b", "wwn:1"), want: true},
		"the node remembers a disk":            {first: remembered},
		"it was written a moment ago":          {first: fresh},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, nodes := ofDisks()
			var err error
			if tc.node {
				err = nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
			}
			if tc.volume != nil {
				err = errors.Join(err, c.volumes.GetIndexer().Add(tc.volume))
			}
			pages := []*stowage.LocalDiskReport{pageOf(2)}
			if tc.first != nil {
				pages = append(pages, tc.first)
			}
			for _, page := range pages {
				err = errors.Join(err, c.ReportInformer.GetIndexer().Add(page))
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, page := range pages {
				want := tc.want || page.Spec.Page == 2 && tc.first == fresh // an old page
				if got := c.obsolete(page, time.Now()); got != want {
					t.Errorf("page %d is obsolete: %t, want %t", page.Spec.Page, got, want)
				}
			}
		})
	}
}

// TestDeleteReport: an obsolete report is deleted if it has not changed and the API server has no such
// node.
func TestDeleteReport(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		objects []runtime.Object
		deleted bool
	}{
		"the node is gone": {deleted: true},
		"the node is back": {objects: []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []metav1.DeleteOptions
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var options metav1.DeleteOptions
				if err := json.NewDecoder(r.Body).Decode(&options); err != nil || r.Method != http.MethodDelete {
					t.Errorf("%s: %v", r.Method, err)
				}
				asked = append(asked, options)
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}) // a reader that has left is reported nothing
			}))
			defer server.Close()
			reports, err := diskreports.NewClient(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			c := &Controller{Config: Config{Reports: reports, Client: fake.NewClientset(tc.objects...)}}
			if err := c.deleteReport(t.Context(), pageOf(1)); err != nil {
				t.Fatal(err)
			}
			if (len(asked) == 1) != tc.deleted {
				t.Fatalf("%d reports were deleted, want any: %t", len(asked), tc.deleted)
			}
			if tc.deleted && (asked[0].Preconditions == nil || *asked[0].Preconditions.UID != "uid" || *asked[0].Preconditions.ResourceVersion != "7") {
				t.Errorf("deleted on the condition %+v", asked[0].Preconditions)
			}
		})
	}
}
