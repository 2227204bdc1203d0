// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"
	"time"

	"stowage.dev/stowage/pkg/apis/wellknown"
)

// Recreatable is what a claim says of itself by RecreatableAnnotation. hindrance is why it is
// not released, as users are told; empty if the annotation does not prevent that.
func Recreatable(annotations map[string]string) (yes bool, hindrance string) {
	switch value, said := annotations[wellknown.NodeLossRecreatableAnnotation]; {
	case !said:
		return false, ""
	case value == "true":
		return true, ""
	case value == "false":
		return false, "its annotation " + wellknown.NodeLossRecreatableAnnotation + " is false"
	default:
		return false, fmt.Sprintf("it has %s=%q, allowed is true or false", wellknown.NodeLossRecreatableAnnotation, shortened(value))
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

// Asked is what an object, such as "claim x/y", asks for by its annotations.
type Asked struct {
	Object      string
	Annotations map[string]string
}

// TermsOf are the defaults, changed by what the class asks for, and that by what the
// claim asks for. What cannot be read makes them terms to keep, with a problem that
// names the object, also if another object says something better.
func TermsOf(defaults Terms, asked ...Asked) Terms {
	terms := defaults
	for _, a := range asked {
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
	return Terms{Delay: MaxDelay, Problem: fmt.Sprintf("%s has %s=%q, allowed is %s", object, annotation, shortened(value), allowed)}
}

// shortened is a value that users are told.
func shortened(value string) string {
	const most = 64
	if len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "…"
	}
	return value
}
