// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules limits how many disks of a cluster are cleaned after their volume is gone. A
// provisioner requests a grant in its node's report; the controller writes the grant to the
// report, where it survives restarts of both.
package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// Window is the time in which the limit counts grants.
	Window = time.Hour
)

// Grant allows the disk that holds the data to be cleaned without a volume.
type Grant struct {
	Data string
	// At is when it was granted, in UTC; zero for a grant of an administrator.
	At time.Time
}

// Request is a request for a grant.
type Request struct {
	Node, Data string
	// Since is when the provisioner first requested it.
	Since time.Time
}

// ParseGrants parses the annotation.
func ParseGrants(text string) []Grant {
	var grants []Grant
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		grant := Grant{Data: word}
		if i := strings.LastIndexByte(word, '@'); i >= 0 {
			if at, err := time.Parse(time.RFC3339, word[i+1:]); err == nil {
				grant = Grant{Data: word[:i], At: at.UTC()}
			}
		}
		grants = append(grants, grant)
	}
	return grants
}

// FormatGrants returns the annotation for grants.
func FormatGrants(grants []Grant) string {
	words := make([]string, len(grants))
	for i, grant := range grants {
		words[i] = grant.Data
		if !grant.At.IsZero() {
			words[i] += "@" + grant.At.UTC().Format(time.RFC3339)
		}
	}
	return strings.Join(words, ",")
}

// Decision is which requests are granted now.
type Decision struct {
	Granted []Request
	// Waiting is how many are not granted. Retry is the time until the next one may be granted;
	// zero if only a different limit could allow that.
	Waiting int
	Retry   time.Duration
}

// Decide grants requests in the order of their time, at most limit in a window. grants are those
// of each node; expired ones neither count nor answer a request.
func Decide(now time.Time, limit int, grants map[string][]Grant, requests []Request) Decision {
	var spent []time.Time
	for _, all := range grants {
		for _, grant := range all {
			if !grant.At.IsZero() && !grant.expired(now) {
				spent = append(spent, grant.At)
			}
		}
	}
	slices.SortFunc(spent, time.Time.Compare)
	var open []Request
	for _, request := range requests {
		answered := slices.ContainsFunc(grants[request.Node], func(g Grant) bool { return g.Data == request.Data && !g.expired(now) })
		if !answered {
			open = append(open, request)
		}
	}
	slices.SortFunc(open, func(a, b Request) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Data, b.Data))
	})
	open = slices.CompactFunc(open, func(a, b Request) bool { return a.Node == b.Node && a.Data == b.Data })
	free := min(max(limit-len(spent), 0), len(open))
	d := Decision{Granted: open[:free], Waiting: len(open) - free}
	if d.Waiting > 0 && limit > 0 {
		d.Retry = Window
		if len(spent) > 0 {
			d.Retry = max(spent[max(len(spent)-limit, 0)].Add(Window).Sub(now), time.Second)
		}
	}
	return d
}

// Keep returns the grants that have not expired.
func Keep(now time.Time, grants []Grant) []Grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool { return g.expired(now) })
}

// expired reports whether the grant is older than the window: it has to be requested again.
func (g *Grant) expired(now time.Time) bool { return !g.At.IsZero() && now.Sub(g.At) >= Window }
