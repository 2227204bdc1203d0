// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package format

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSize(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{
		0: "0", 1023: "1023", 1024: "1Ki", 1536: "1.5Ki", 10<<30 + 1: "10Gi", 400 << 30: "400Gi", 1023<<30 + 1: "1023Gi",
		2<<40 - 1: "1.99Ti", 1999844147200: "1.81Ti", 12<<40 + 1<<39: "12.5Ti", math.MaxInt64: "7.99Ei", -3 << 30: "-3Gi", math.MinInt64: "-4Ei",
	} {
		if got := Size(bytes); got != want {
			t.Errorf("Size(%d) is %s, want %s", bytes, got, want)
		}
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, now := range map[string]time.Time{
		"since 2026-01-02 03:04:05 UTC": {},
		"for 3h5m":                      then.Add(3*time.Hour + 5*time.Minute),
		"for 0s":                        then.Add(-time.Minute), // the clock of the user is late
	} {
		if got := Since(then, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	for want, words := range map[string][]string{
		"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}, "a, b, c and 2 more": {"a", "b", "c", "d", "e"},
	} {
		if got := List(words, 3); got != want {
			t.Errorf("List(%q) is %q, want %q", words, got, want)
		}
	}
}

func TestSimilar(t *testing.T) {
	t.Parallel()
	names := []string{"data-db-0", "data-db-1", "logs", "other", "x"}
	for name, want := range map[string][]string{
		"data-db-2": {"data-db-0", "data-db-1"},
		"log":       {"logs"},
		"data-db0":  {"data-db-0", "data-db-1"},
		"db":        nil,
		"unrelated": nil,
	} {
		if diff := cmp.Diff(want, Similar(name, names)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
