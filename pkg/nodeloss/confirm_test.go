// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/diskreports"
	"stowage.dev/stowage/pkg/local/loss"
)

// TestNoVolumeGoesWithoutTombstone: whatever the informer shows, the API server has it.
func TestNoVolumeGoesWithoutTombstone(t *testing.T) {
	t.Parallel()
	report := func(uid string) *stowage.LocalDiskReport {
		r := &stowage.LocalDiskReport{
			TypeMeta:   metav1.TypeMeta{APIVersion: stowage.SchemeGroupVersion.String(), Kind: "LocalDiskReport"},
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: stowage.LocalDiskReportSpec{NodeName: "a", Page: 1},
		}
		erect(r, stowage.Tombstone{Identity: "wwn:1", VolumeUID: uid})
		return r
	}
	unlabelled := report("old")
	unlabelled.Labels = nil
	missing := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
	}
	for name, tc := range map[string]struct {
		code   int
		answer any
		want   error
	}{
		"it is there":                     {http.StatusOK, report("old"), nil},
		"it is of another volume":         {http.StatusOK, report("new"), errAgain},
		"agents would not find it":        {http.StatusOK, unlabelled, errAgain},
		"somebody has deleted the report": {http.StatusNotFound, missing, errAgain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.code)
				_ = json.NewEncoder(w).Encode(tc.answer) // a reader that has left is told nothing
			}))
			defer server.Close()
			reports, err := diskreports.NewClient(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			volume := oursOf("pv", "a", "wwn:1")
			volume.UID = "old"
			c := &Controller{Config: Config{Reports: reports}}
			g := &gathered{volume: volume, node: "a"}
			for _, do := range []loss.Action{loss.Remove, loss.LetGo} {
				if tc.want == nil {
					if err := c.confirmBuried(t.Context(), g); err != nil {
						t.Error(err)
					}
				} else if err := c.confirm(t.Context(), g, loss.Decision{Do: do, Cause: loss.NodeGone}); !errors.Is(err, tc.want) {
					t.Errorf("%s: %v, want %v", do, err, tc.want)
				}
			}
		})
	}
}
