// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// compare returns the result of a comparison operator.
func (e *evaluator) compare(operator string, left, right any) bool {
	switch operator {
	case "==":
		return e.equal(left, right)
	case "!=":
		return !e.equal(left, right)
	case "<":
		return e.less(left, right)
	case ">":
		return e.less(right, left)
	case "<=":
		return e.lessOrEqual(left, right)
	case ">=":
		return e.lessOrEqual(right, left)
	case "in":
		return e.contains(right, left)
	}
	return !e.contains(right, left) // not in
}

// equal reports whether values are equal. Values of different types are not, but for numbers
// and booleans.
func (e *evaluator) equal(left, right any) bool {
	e.step(1)
	if c, ok := compareNumbers(left, right); ok {
		return c == 0
	}
	switch l := left.(type) {
	case nil:
		return right == nil
	case undefined:
		_, ok := right.(undefined)
		return ok
	case string:
		r, ok := right.(string)
		if ok && len(l) == len(r) {
			e.read(len(l))
		}
		return ok && l == r
	case []any:
		r, ok := right.([]any)
		return ok && len(l) == len(r) && e.mismatch(l, r) == len(l)
	case map[string]any:
		r, ok := right.(map[string]any)
		return ok && len(l) == len(r) && e.equalDicts(l, r)
	case *loop:
		return left == right
	case *namespace:
		return left == right
	case *function:
		return left == right
	}
	return false
}

// mismatch returns the first index where the elements of lists differ, or the length of the
// shorter one.
func (e *evaluator) mismatch(left, right []any) int {
	n := min(len(left), len(right))
	i := 0
	e.deeper(func() {
		for i < n && e.equal(left[i], right[i]) {
			i++
		}
	})
	return i
}

func (e *evaluator) equalDicts(left, right map[string]any) bool {
	same := true
	e.deeper(func() {
		for _, k := range e.keys(left) {
			value, ok := right[k]
			if same = ok && e.equal(left[k], value); !same {
				return
			}
		}
	})
	return same
}

// unordered is the result of comparing with NaN.
const unordered = 2

// compareNumbers returns -1, 0, 1 or unordered, or false if not both are numbers. Integers and
// floats are compared exactly.
func compareNumbers(left, right any) (int, bool) {
	x, ok := number(left)
	y, also := number(right)
	if !ok || !also {
		return 0, false
	}
	i, leftInteger := x.(int64)
	j, rightInteger := y.(int64)
	switch {
	case leftInteger && rightInteger:
		return cmp.Compare(i, j), true
	case math.IsNaN(toFloat(x)) || math.IsNaN(toFloat(y)):
		return unordered, true
	case leftInteger:
		return compareIntegerFloat(i, y.(float64)), true
	case rightInteger:
		return -compareIntegerFloat(j, x.(float64)), true
	}
	return cmp.Compare(x.(float64), y.(float64)), true
}

func compareIntegerFloat(i int64, f float64) int {
	switch {
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return 1
	}
	whole := math.Floor(f)
	if c := cmp.Compare(i, int64(whole)); c != 0 || whole == f {
		return c
	}
	return -1
}

// less reports whether left is before right; the types must have an order.
func (e *evaluator) less(left, right any) bool {
	c := e.order(left, right)
	return c == -1
}

func (e *evaluator) lessOrEqual(left, right any) bool {
	c := e.order(left, right)
	return c == -1 || c == 0
}

// order returns -1, 0, 1 or unordered.
func (e *evaluator) order(left, right any) int {
	e.step(1)
	e.need(left)
	e.need(right)
	if c, ok := compareNumbers(left, right); ok {
		return c
	}
	switch l := left.(type) {
	case string:
		if r, ok := right.(string); ok {
			e.read(min(len(l), len(r)))
			return cmp.Compare(l, r)
		}
	case []any:
		if r, ok := right.([]any); ok {
			i := e.mismatch(l, r)
			if i == len(l) || i == len(r) {
				return cmp.Compare(len(l), len(r))
			}
			c := 0
			e.deeper(func() { c = e.order(l[i], r[i]) })
			return c
		}
	}
	e.fail("%s and %s have no order", kind(left), kind(right))
	return 0
}

// contains returns Python's element in container.
func (e *evaluator) contains(container, element any) bool {
	switch c := container.(type) {
	case undefined:
		return false
	case string:
		e.need(element)
		part, ok := element.(string)
		if !ok {
			e.fail("only a string can be in a string, not %s", kind(element))
		}
		e.read(len(c) + len(part))
		return strings.Contains(c, part)
	case []any:
		return slices.ContainsFunc(c, func(other any) bool { return e.equal(element, other) })
	case map[string]any:
		key, ok := element.(string)
		if !ok {
			return false
		}
		e.read(len(key))
		_, ok = c[key]
		return ok
	}
	e.fail("nothing can be in %s", kind(container))
	return false
}

// identical reports Python's left is right, for values where it does not depend on the
// interpreter.
func (e *evaluator) identical(left, right any) bool {
	switch right.(type) {
	case nil, bool:
		return left == right
	}
	e.fail("the test sameas compares with none, true and false only; use ==")
	return false
}
