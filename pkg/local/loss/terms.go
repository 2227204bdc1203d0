// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"fmt"
	"time"
)

// The annotations of claims and classes by which users say what they want. What a claim
// says wins over what its class says.
const (
	PolicyAnnotation = "stowage.dev/node-loss"
	DelayAnnotation  = "stowage.dev/node-loss-delay"
)

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
		if policy, ok := a.Annotations[PolicyAnnotation]; ok {
			if policy != Keep && policy != Release {
				return unreadable(a.Object, PolicyAnnotation, policy, Keep+" or "+Release)
			}
			terms.Release = policy == Release
		}
		if text, ok := a.Annotations[DelayAnnotation]; ok {
			delay, err := time.ParseDuration(text)
			if err != nil || delay < MinDelay || delay > MaxDelay {
				return unreadable(a.Object, DelayAnnotation, text, fmt.Sprintf("a duration of %s to %s, such as 5m", MinDelay, MaxDelay))
			}
			terms.Delay = delay
		}
	}
	return terms
}

func unreadable(object, annotation, value, allowed string) Terms {
	const most = 64
	if len(value) > most {
		value = value[:most] + "…"
	}
	return Terms{Delay: MaxDelay, Problem: fmt.Sprintf("%s has %s=%q, allowed is %s", object, annotation, value, allowed)}
}
