// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
)

// The bounds of a report. A page stays well below 1 MiB, which API server and etcd accept.
const (
	// MaxPages is how many pages a node's report has at most.
	MaxPages = 16
	// MaxEntries is how many entries a page has at most, and how many tombstones.
	MaxEntries = 512
	// MaxClasses is how many classes a report has at most.
	MaxClasses = 256
	// MaxListBytes is how large the entries of a page are at most, as JSON; how large
	// its tombstones, and how large its classes.
	MaxListBytes = 256 << 10

	// maxNameLength is how long the name of an object may be.
	maxNameLength = 253
)

// PageName returns the name of a page of a node's report: the node's name for page 1, otherwise
// "<node>.page-<n>". If that is too long, 128 bits of the SHA-256 of the node's name replace the
// name. A node may have the name of another node's page: check spec.nodeName before writing.
func PageName(node string, page int32) string {
	if page <= 1 {
		return node
	}
	suffix := ".page-" + strconv.Itoa(int(page))
	if len(node)+len(suffix) > maxNameLength {
		sum := sha256.Sum256([]byte(node))
		node = hex.EncodeToString(sum[:16])
	}
	return node + suffix
}

// store is an informer's.
type store interface {
	GetByKey(key string) (object any, exists bool, err error)
}

// StoredPages are the pages of a node's report in the store of an informer, in order.
func StoredPages(store store, node string) iter.Seq[*LocalDiskReport] {
	return func(yield func(*LocalDiskReport) bool) {
		for page := int32(1); page <= MaxPages; page++ {
			if report := StoredPage(store, node, page); report != nil && !yield(report) {
				return
			}
		}
	}
}

// StoredPage returns a page of a node's report from the store of an informer; nil if it does not
// exist.
func StoredPage(store store, node string, page int32) *LocalDiskReport {
	object, _, err := store.GetByKey(PageName(node, page))
	report, ok := object.(*LocalDiskReport)
	if err != nil || !ok || report.Spec.NodeName != node || report.Spec.Page != page {
		return nil
	}
	return report
}

// Pages distributes entries over the pages of a report, at least one, and returns how many are in
// no page. Entries are ordered by class and name, with the skipped ones last, so that they are
// the first to be left out. Fit is applied to every entry.
func Pages(entries []Entry) (pages [][]Entry, truncated int32) {
	ordered := slices.Clone(entries)
	slices.SortStableFunc(ordered, func(a, b Entry) int {
		return cmp.Or(
			cmp.Compare(skipped(a), skipped(b)),
			cmp.Compare(a.Class, b.Class),
			cmp.Compare(a.Name, b.Name),
		)
	})
	pages = [][]Entry{{}}
	bytes, last := 0, 0
	for i, entry := range ordered {
		entry = Fit(entry)
		size := encoded(entry)
		if len(pages[last]) == MaxEntries || bytes+size > MaxListBytes && len(pages[last]) > 0 {
			if len(pages) == MaxPages {
				return pages, count(len(ordered) - i)
			}
			pages = append(pages, nil)
			bytes, last = 0, last+1
		}
		pages[last] = append(pages[last], entry)
		bytes += size
	}
	return pages, 0
}

// Tombstones returns as many tombstones as fit into a report, ordered by identity and fit to the
// schema. Those without an identity are left out.
func Tombstones(all []Tombstone) []Tombstone {
	ordered := slices.DeleteFunc(slices.Clone(all), func(t Tombstone) bool { return t.Identity == "" })
	slices.SortStableFunc(ordered, func(a, b Tombstone) int { return cmp.Compare(a.Identity, b.Identity) })
	return held(ordered, fitTombstone, MaxEntries)
}

// Classes returns as many classes as fit into a report, ordered by name, one of each name and fit
// to the schema.
func Classes(all []ClassStatus) []ClassStatus {
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b ClassStatus) int { return cmp.Compare(a.Name, b.Name) })
	ordered = slices.CompactFunc(ordered, func(a, b ClassStatus) bool { return a.Name == b.Name })
	return held(ordered, fitClass, MaxClasses)
}

// held returns the items from the beginning of a list that fit into a report.
func held[T any](ordered []T, fit func(T) T, limit int) []T {
	var kept []T
	bytes := 0
	for _, item := range ordered {
		item = fit(item)
		if bytes += encoded(item); bytes > MaxListBytes || len(kept) == limit {
			break
		}
		kept = append(kept, item)
	}
	return kept
}

// Summarize counts entries. The caller sets Capacity and Free: an entry has the size of the disk,
// and the capacity of the volume may be lower.
func Summarize(entries []Entry) Summary {
	var s Summary
	for _, entry := range entries {
		if entry.Volume != "" {
			s.Volumes++
		}
		switch entry.State {
		case EntryBound:
			s.Bound++
			if entry.Reason != "" {
				s.Trouble++
			}
		case EntryCleaning:
			s.Cleaning++
		case EntrySkipped:
			s.Skipped++
		case EntryFailing:
			s.Failing++
		case EntryMissing, EntryReplaced, EntryUnproven, EntryRetained, EntryFailed:
			s.Trouble++
		case EntryPending, EntryAvailable, EntryReleased:
		}
	}
	return s
}

func skipped(entry Entry) int {
	if entry.State == EntrySkipped {
		return 1
	}
	return 0
}

// encoded returns the size of an item of a list as JSON, in bytes.
func encoded(item any) int {
	text, err := json.Marshal(item)
	if err != nil {
		return MaxListBytes // a time that JSON cannot represent: alone on its page, where it is rejected
	}
	return len(text) + len(",")
}

func count(n int) int32 { return int32(min(n, 1<<31-1)) }
