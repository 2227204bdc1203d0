// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/controller/orphancleans/rules"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func TestDecide(t *testing.T) {
	ask := func(node, data string, since time.Duration) rules.Request {
		return rules.Request{Node: node, Data: data, Since: ago(since)}
	}
	grant := func(data string, since time.Duration) rules.Grant { return rules.Grant{Data: data, At: ago(since)} }
	for name, test := range map[string]struct {
		limit    int
		grants   map[string][]rules.Grant
		requests []rules.Request
		want     rules.Decision
	}{
		"no requests": {limit: 2, want: rules.Decision{}},
		"the first requests are granted": {
			limit: 2, requests: []rules.Request{ask("n1", "a", 1), ask("n2", "b", 3), ask("n3", "c", 2)},
			want: rules.Decision{Granted: []rules.Request{ask("n2", "b", 3), ask("n3", "c", 2)}, Waiting: 1, Retry: time.Hour},
		},
		"grants of all nodes count": {
			limit: 2, grants: map[string][]rules.Grant{"n1": {grant("x", 40*time.Minute)}, "n2": {grant("y", 10*time.Minute)}},
			requests: []rules.Request{ask("n3", "a", 1)}, want: rules.Decision{Waiting: 1, Retry: 20 * time.Minute},
		},
		"more were granted than the limit is now": {
			limit: 1, grants: map[string][]rules.Grant{"n1": {grant("x", 40*time.Minute), grant("y", 10*time.Minute)}},
			requests: []rules.Request{ask("n3", "a", 1)}, want: rules.Decision{Waiting: 1, Retry: 50 * time.Minute},
		},
		"expired grants do not count": {
			limit: 1, grants: map[string][]rules.Grant{"n1": {grant("x", time.Hour)}},
			requests: []rules.Request{ask("n1", "a", 1)}, want: rules.Decision{Granted: []rules.Request{ask("n1", "a", 1)}},
		},
		"grants of an administrator do not count": {
			limit: 1, grants: map[string][]rules.Grant{"n1": {{Data: "x"}}},
			requests: []rules.Request{ask("n1", "x", 2), ask("n1", "a", 1)}, want: rules.Decision{Granted: []rules.Request{ask("n1", "a", 1)}},
		},
		"what is granted is not granted again": {
			limit: 2, grants: map[string][]rules.Grant{"n1": {grant("a", time.Minute)}},
			requests: []rules.Request{ask("n1", "a", 1), ask("n2", "a", 1)}, want: rules.Decision{Granted: []rules.Request{ask("n2", "a", 1)}},
		},
		"an expired grant that was not used is granted again": {
			limit: 1, grants: map[string][]rules.Grant{"n1": {grant("a", 2*time.Hour)}},
			requests: []rules.Request{ask("n1", "a", 1)}, want: rules.Decision{Granted: []rules.Request{ask("n1", "a", 1)}},
		},
		"a limit of none": {requests: []rules.Request{ask("n1", "a", 1)}, want: rules.Decision{Waiting: 1}},
		"requested twice": {
			limit: 2, requests: []rules.Request{ask("n1", "a", 1), ask("n1", "a", 1)}, want: rules.Decision{Granted: []rules.Request{ask("n1", "a", 1)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := rules.Decide(now, test.limit, test.grants, test.requests)
			if len(got.Granted) == 0 {
				got.Granted = nil
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestGrantsRoundTrip: identities may have the separators of the annotation.
func TestGrantsRoundTrip(t *testing.T) {
	grants := []rules.Grant{{Data: "fs:u@1:/a@b/uid-1", At: now}, {Data: "wwn:0x1/uid@2"}}
	text := rules.FormatGrants(grants)
	if want := "fs:u@1:/a@b/uid-1@2026-01-02T12:00:00Z,wwn:0x1/uid@2"; text != want {
		t.Errorf("formatted %q, want %q", text, want)
	}
	if diff := cmp.Diff(grants, rules.ParseGrants(" "+text+", ,")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(grants[1:], rules.Keep(now.Add(time.Hour), grants)); diff != "" {
		t.Errorf("an hour later (-want +got):\n%s", diff)
	}
}
