// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestPageName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 246)
	tests := map[string]struct {
		node string
		page int32
		want string
	}{
		"the first page is named like the node": {"node1", 1, "node1"},
		"the second":                            {"node1", 2, "node1.page-2"},
		"the last":                              {"node1", 16, "node1.page-16"},
		"a name of just the maximum length":     {long, 9, long + ".page-9"},
		"a name that is one byte too long":      {long, 10, "934f3812ac2986862ed564d7de5d2a1a.page-10"},
		"a long name, and one page":             {strings.Repeat("a", 253), 1, strings.Repeat("a", 253)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := PageName(tc.node, tc.page)
			if got != tc.want {
				t.Errorf("PageName = %s, want %s", got, tc.want)
			}
			if errs := validation.IsDNS1123Subdomain(got); len(errs) > 0 {
				t.Errorf("%q is no name: %v", got, errs)
			}
			if tc.page > 1 && !strings.HasSuffix(got, fmt.Sprintf(".page-%d", tc.page)) {
				t.Errorf("%q does not end as the schema wants it", got)
			}
		})
	}
}

// entries returns n entries, with alternating states.
func entries(n int, states ...EntryState) []Entry {
	list := make([]Entry, n)
	for i := range list {
		list[i] = Entry{Class: "fast", Name: fmt.Sprintf("disk%05d", i), State: states[i%len(states)]}
	}
	return list
}

func TestPages(t *testing.T) {
	t.Parallel()
	large := entries(100, EntryAvailable)
	for i := range large {
		large[i].Message, large[i].Path = strings.Repeat("m", 9999), strings.Repeat("\x01", 4000)
	}
	tests := map[string]struct {
		entries   []Entry
		sizes     []int
		truncated int32
	}{
		"no entry is one page":                {nil, []int{0}, 0},
		"as many as a page holds":             {entries(MaxEntries, EntryBound), []int{MaxEntries}, 0},
		"one more":                            {entries(MaxEntries+1, EntryBound), []int{MaxEntries, 1}, 0},
		"large ones: 10 to a page":            {large, slices.Repeat([]int{10}, 10), 0},
		"as many as all pages hold":           {entries(MaxPages*MaxEntries, EntryBound), slices.Repeat([]int{MaxEntries}, MaxPages), 0},
		"more than that: the rest is counted": {entries(MaxPages*MaxEntries+7, EntryBound), slices.Repeat([]int{MaxEntries}, MaxPages), 7},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pages, truncated := Pages(tc.entries)
			var sizes []int
			for _, page := range pages {
				sizes = append(sizes, len(page))
				if text, err := json.Marshal(page); err != nil || len(text) > MaxListBytes+len("[]") {
					t.Errorf("a page of %d bytes, %v", len(text), err)
				}
			}
			if diff := cmp.Diff(tc.sizes, sizes); diff != "" {
				t.Error(diff)
			}
			if truncated != tc.truncated {
				t.Errorf("truncated %d, want %d", truncated, tc.truncated)
			}
		})
	}
}

func TestPagesKeepVolumesRatherThanWhatIsSkipped(t *testing.T) {
	t.Parallel()
	all := entries(2*MaxPages*MaxEntries, EntrySkipped, EntryAvailable)
	slices.Reverse(all)
	before := slices.Clone(all)
	pages, truncated := Pages(all)
	if diff := cmp.Diff(before, all); diff != "" {
		t.Fatalf("the entries have changed: %s", diff)
	}
	kept := slices.Concat(pages...)
	if got := Summarize(kept); got.Skipped != 0 || len(kept) != MaxPages*MaxEntries || truncated != MaxPages*MaxEntries {
		t.Errorf("%d kept, %d of them skipped, %d truncated", len(kept), got.Skipped, truncated)
	}
	if !slices.IsSortedFunc(kept, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the entries are not in order")
	}
}

func TestTombstones(t *testing.T) {
	t.Parallel()
	got := Tombstones([]Tombstone{{Identity: "b"}, {Identity: ""}, {Identity: "a"}})
	if diff := cmp.Diff([]Tombstone{{Identity: "a"}, {Identity: "b"}}, got); diff != "" {
		t.Error(diff)
	}
	if got := Tombstones(slices.Repeat([]Tombstone{{Identity: "a"}}, 2*MaxEntries)); len(got) != MaxEntries {
		t.Errorf("%d tombstones, want %d", len(got), MaxEntries)
	}
	if got := Tombstones(slices.Repeat([]Tombstone{{Identity: strings.Repeat("i", maxIdentity)}}, 40)); len(got) != 31 {
		t.Errorf("%d large tombstones, want 31", len(got))
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	got := Classes([]ClassStatus{{Name: "slow"}, {Name: "fast", Ready: true}, {Name: "slow", Ready: true}})
	if diff := cmp.Diff([]ClassStatus{{Name: "fast", Ready: true}, {Name: "slow"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	list := entries(12, EntryStates()...)
	for i := range list {
		if list[i].State != EntrySkipped && list[i].State != EntryRetained {
			list[i].Volume = "local-pv"
		}
	}
	list = append(list, Entry{State: EntryBound, Reason: "Grown", Volume: "local-pv"})
	want := Summary{Volumes: 11, Bound: 2, Cleaning: 1, Skipped: 1, Failing: 1, Trouble: 6}
	if diff := cmp.Diff(want, Summarize(list)); diff != "" {
		t.Error(diff)
	}
}

// TestLargestReport: a page stays below 1 MiB, the limit that is safe with etcd.
func TestLargestReport(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("\x01", 9999)
	report := example()
	report.Status.Conditions[0].Message = FitMessage(text)
	report.Status.Conditions = slices.Repeat(report.Status.Conditions, 16)
	report.Status.Classes = nil
	for i := range 300 {
		report.Status.Classes = append(report.Status.Classes, ClassStatus{Name: "c" + strconv.Itoa(i), HostDir: text, Message: text})
	}
	report.Status.Classes = Classes(report.Status.Classes)
	report.Status.Tombstones = Tombstones(slices.Repeat([]Tombstone{{Identity: text, Volume: text}}, 999))
	pages, _ := Pages(slices.Repeat([]Entry{{Path: text, Message: text, Identity: text, State: EntrySkipped}}, 9999))
	report.Status.Entries = pages[0]
	encoded, err := json.Marshal(report)
	if err != nil || len(encoded) > 1<<20 {
		t.Errorf("%d bytes, %v", len(encoded), err)
	}
}

// FuzzFit: the schema accepts what Fit returns for any entry.
func FuzzFit(f *testing.F) {
	f.Add("disk1", "found", 1, int64(7))
	f.Add("\xff\xfe", "ä\x00", 5000, int64(-1))
	f.Fuzz(func(t *testing.T, name, text string, times int, number int64) {
		text = strings.Repeat(text, max(0, min(times, 20000/(len(text)+1))))
		report := example()
		entry := &report.Status.Entries[0]
		entry.Class, entry.Name, entry.Path, entry.Volume, entry.Identity = text, name, text+name, text, text
		entry.Reason, entry.Message, entry.Filesystem = name, text, text
		entry.Bytes, entry.Generation = number, number
		*entry.Cleaning = Cleaning{Method: name, LastError: text, DoneBytes: number, TotalBytes: number, Attempts: int32(number)}
		before := report.DeepCopy()
		pages, _ := Pages(report.Status.Entries)
		report.Status.Tombstones = Tombstones([]Tombstone{{
			Identity: text, Class: name, Name: text, Volume: text, VolumeUID: text, Generation: number, State: TombstoneRetained,
		}})
		report.Status.Classes = Classes([]ClassStatus{{Name: "a" + text, HostDir: text, Reason: text, Message: name}})
		report.Status.Conditions[0].Message = FitMessage(text)
		if diff := cmp.Diff(before.Status.Entries, report.Status.Entries); diff != "" {
			t.Fatalf("the entries have changed: %s", diff)
		}
		report.Status.Entries = pages[0]
		if problems := installedSchema(t).problems(t, report, nil); len(problems) > 0 {
			t.Errorf("refused for %v", problems)
		}
	})
}
