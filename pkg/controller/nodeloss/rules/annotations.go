// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"
	"time"

	"stowage.dev/stowage/pkg/apis/wellknown"
)

// Recreatable reads RecreatableAnnotation of a claim. obstacle is why the claim must not be
// released, for users; empty if the annotation does not forbid it.
func Recreatable(annotations map[string]string) (yes bool, obstacle string) {
	switch value, said := annotations[wellknown.NodeLossRecreatableAnnotation]; {
	case !said:
		return false, ""
	case value == "true":
		return true, ""
	case value == "false":
		return false, "its annotation " + wellknown.NodeLossRecreatableAnnotation + " is false"
	default:
		return false, fmt.Sprintf("it has %s=%q, allowed is true or false", wellknown.NodeLossRecreatableAnnotation, truncate(value))
	}
}

// The values of PolicyAnnotation.
const (
	Keep    = "Keep"
	Release = "Release"
)

// Bounds of a delay, inclusive.
const (
	MinDelay = time.Second
	MaxDelay = 8760 * time.Hour
)

// Annotated is an object, such as "claim x/y", with its annotations.
type Annotated struct {
	Object      string
	Annotations map[string]string
}

// TermsOf returns the defaults, overridden by the annotations of each object in turn. An invalid
// annotation of any object results in Keep, with a problem that names the object.
func TermsOf(defaults Terms, objects ...Annotated) Terms {
	terms := defaults
	for _, a := range objects {
		if policy, ok := a.Annotations[wellknown.NodeLossAnnotation]; ok {
			if policy != Keep && policy != Release {
				return unreadable(a.Object, wellknown.NodeLossAnnotation, policy, Keep+" or "+Release)
			}
			terms.Release = policy == Release
		}
		if text, ok := a.Annotations[wellknown.NodeLossDelayAnnotation]; ok {
			delay, err := time.ParseDuration(text)
			if err != nil || delay < MinDelay || delay > MaxDelay {
				return unreadable(a.Object, wellknown.NodeLossDelayAnnotation, text, fmt.Sprintf("a duration of %s to %s, such as 5m", MinDelay, MaxDelay))
			}
			terms.Delay = delay
		}
	}
	return terms
}

func unreadable(object, annotation, value, allowed string) Terms {
	return Terms{Delay: MaxDelay, Problem: fmt.Sprintf("%s has %s=%q, allowed is %s", object, annotation, truncate(value), allowed)}
}

// truncate shortens a value for messages.
func truncate(value string) string {
	const most = 64
	if len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "…"
	}
	return value
}

// String returns the value of MarkAnnotation.
func (m Mark) String() string { return encode(string(m.Cause), m.Since) }

// String returns the value of ReleaseAnnotation.
func (r BegunRelease) String() string { return encode(r.ClaimUID, r.At) }

// ReadMark parses MarkAnnotation; nil if it is invalid.
func ReadMark(text string) *Mark {
	cause, at, ok := decode(text)
	if !ok {
		return nil
	}
	return &Mark{Cause: Cause(cause), Since: at}
}

// ReadRelease parses ReleaseAnnotation; nil if it is invalid.
func ReadRelease(text string) *BegunRelease {
	uid, at, ok := decode(text)
	if !ok {
		return nil
	}
	return &BegunRelease{ClaimUID: uid, At: at}
}

func encode(word string, at time.Time) string {
	return word + " " + at.UTC().Format(time.RFC3339Nano)
}

func decode(text string) (word string, at time.Time, ok bool) {
	word, rest, found := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, rest)
	return word, at, found && word != "" && err == nil
}
