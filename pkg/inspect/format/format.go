// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package format writes sizes, times and lists as people read them.
package format

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

var units = []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

// Size returns bytes in the largest binary unit that is not more than the value, with at most three digits
// unless they are exact: 400Gi, 1.82Ti, 1023Mi. Digits are cut, so that no size appears to be larger than it is.
func Size(bytes int64) string {
	if bytes < 0 {
		return "-" + Size(-max(bytes, -1<<62))
	}
	unit, whole, scale := 0, bytes, int64(1)
	for whole >= 1024 && unit < len(units)-1 {
		unit, whole, scale = unit+1, whole/1024, scale*1024
	}
	text := strconv.FormatInt(whole, 10)
	if digits := 3 - len(text); digits > 0 && scale > 1 {
		fraction := fmt.Sprintf("%03d", bytes%scale/(scale/1024)*1000/1024)
		if fraction = strings.TrimRight(fraction[:digits], "0"); fraction != "" {
			text += "." + fraction
		}
	}
	return text + units[unit]
}

// Count returns a number and a noun, in the plural unless the number is 1.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Since returns how long ago a time was, or the time itself if now is zero: "for 3h", "since 2026-01-02 03:04:05 UTC".
func Since(t, now time.Time) string {
	if now.IsZero() {
		return "since " + Time(t)
	}
	return "for " + Age(t, now)
}

// Age returns the duration from a time to now, as kubectl prints ages; the time itself if now is zero.
func Age(t, now time.Time) string {
	if now.IsZero() {
		return Time(t)
	}
	return Duration(now.Sub(t))
}

// Duration returns a duration as kubectl prints ages; a negative one counts as 0.
func Duration(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// Time returns a time to the second.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// List joins words: "a", "a and b", "a, b and c". Of more than most words, the others are counted.
func List(words []string, most int) string {
	if n := len(words); n > most {
		return strings.Join(words[:most], ", ") + fmt.Sprintf(" and %d more", n-most)
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// Similar returns at most three of the names, those that a misspelled name may mean, best first.
func Similar(name string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var close []candidate
	for _, other := range names {
		d := distance(name, other)
		if len(name) > 2 && (strings.Contains(other, name) || strings.Contains(name, other)) {
			d = min(d, 1)
		}
		if d <= 1+len(name)/4 {
			close = append(close, candidate{other, d})
		}
	}
	slices.SortFunc(close, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var best []string
	for _, c := range slices.CompactFunc(close, func(a, b candidate) bool { return a.name == b.name }) {
		if len(best) == 3 {
			break
		}
		best = append(best, c.name)
	}
	return best
}

// distance is the number of bytes to insert, remove or replace between two names (Levenshtein), or a large number if
// their lengths differ by more than 4.
func distance(a, b string) int {
	if d := len(a) - len(b); d > 4 || d < -4 {
		return 1 << 20
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
