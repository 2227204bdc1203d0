// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package recorder_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"stowage.dev/stowage/pkg/recorder"
)

// written is what users read of an event. Count is 0 for an event that was not repeated.
type written struct {
	Action, Note string
	Count        int32
}

// TestEvents: every note is written, and a repeated note is counted.
func TestEvents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		notes []string
		want  []written
	}{
		"one":                        {[]string{"a"}, []written{{"Act", "a", 0}}},
		"another note":               {[]string{"a", "b"}, []written{{"Act", "a", 0}, {"Act", "b", 0}}},
		"the same note":              {[]string{"a", "a", "a"}, []written{{"Act", "a", 2}}},
		"the first note comes again": {[]string{"a", "b", "a"}, []written{{"Act", "a", 2}, {"Act", "b", 0}}},
		"notes of several lines":     {[]string{"a\nb", "a\nc"}, []written{{"Act", "a\nb", 0}, {"Act", "a\nc", 0}}},
		"a note with a percent sign": {[]string{"100%d"}, []written{{"Act", "100%d", 0}}},
		"a note that is too long":    {[]string{strings.Repeat("é", 513)}, []written{{"Act", strings.Repeat("é", 510) + "…", 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				r, err := recorder.Start(t.Context(), client.EventsV1(), scheme.Scheme, "test")
				if err != nil {
					t.Fatal(err)
				}
				defer r.Shutdown()
				claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"}}
				for _, note := range tc.notes {
					r.Eventf(claim, nil, corev1.EventTypeWarning, "Reason", "Act", "%s", note)
					synctest.Wait()
					time.Sleep(time.Second) // names of events have the time
				}
				list, err := client.EventsV1().Events("ns").List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				var got []written
				for i := range list.Items {
					event := written{list.Items[i].Action, list.Items[i].Note, 0}
					if series := list.Items[i].Series; series != nil {
						event.Count = series.Count
					}
					got = append(got, event)
				}
				if diff := cmp.Diff(tc.want, got, cmpopts.SortSlices(func(a, b written) bool { return a.Note < b.Note })); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}
