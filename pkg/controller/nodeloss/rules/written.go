// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"time"
)

// String is what MarkAnnotation holds.
func (m Mark) String() string { return written(string(m.Cause), m.Since) }

// String is what ReleaseAnnotation holds.
func (r Began) String() string { return written(r.ClaimUID, r.At) }

// ReadMark reads what MarkAnnotation holds; nil if that is no mark.
func ReadMark(text string) *Mark {
	cause, at, ok := read(text)
	if !ok {
		return nil
	}
	return &Mark{Cause: Cause(cause), Since: at}
}

// ReadRelease reads what ReleaseAnnotation holds; nil if that is no release.
func ReadRelease(text string) *Began {
	uid, at, ok := read(text)
	if !ok {
		return nil
	}
	return &Began{ClaimUID: uid, At: at}
}

func written(word string, at time.Time) string {
	return word + " " + at.UTC().Format(time.RFC3339Nano)
}

func read(text string) (word string, at time.Time, ok bool) {
	word, rest, found := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, rest)
	return word, at, found && word != "" && err == nil
}
