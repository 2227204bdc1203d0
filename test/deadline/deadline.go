// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deadline bounds the waits of tests. Every wait is a multiple of Wait, so that one
// environment variable stretches all of them on a slow machine:
//
//	STOWAGE_TEST_SLOW=4 make test
//
// A deadline only ends a test that would hang. It is not an assertion about speed: a bound
// that the product promises stays a constant of its test. In a testing/synctest bubble time
// is free, so waits there are constants too.
package deadline

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"
)

// Variable is the environment variable that holds the factor for all waits, a number from 1
// to Most. Empty or unset means 1.
const Variable = "STOWAGE_TEST_SLOW"

// Most is the largest factor.
const Most = 100

// single bounds the wait for one thing on a machine that does other work too. A test that
// passes never uses it up.
const single = time.Minute

// factor is read once, so that all waits of a process agree.
var factor = fromEnvironment()

// Wait returns how long a test waits for one thing: an event, an answer, the end of a
// process. A test that waits for more at once takes a multiple of it.
func Wait() time.Duration { return Stretch(single) }

// Stretch multiplies a duration by the factor. It is for limits on tests as a whole, such
// as the timeout of go test; waits are multiples of Wait.
func Stretch(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }

// Context returns a context that ends Wait from now, or with parent.
func Context(parent context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, Wait())
}

// Factor parses the factor of value, which has the format of Variable.
func Factor(value string) (float64, error) {
	if value == "" {
		return 1, nil
	}
	factor, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(factor) || factor < 1 || factor > Most {
		return 0, fmt.Errorf("%s=%q: must be a number from 1 to %d, by which all waits of tests are multiplied", Variable, value, Most)
	}
	return factor, nil
}

// fromEnvironment ends the process on a bad value, before any test runs.
func fromEnvironment() float64 {
	factor, err := Factor(os.Getenv(Variable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return factor
}
