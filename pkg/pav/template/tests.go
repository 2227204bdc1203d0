// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"strings"
)

// tests are the tests of jinja2/tests.py, but for escaped.
var tests = map[string]routine{
	"defined":   kindTest(func(v any) bool { _, ok := v.(undefined); return !ok }),
	"undefined": kindTest(func(v any) bool { _, ok := v.(undefined); return ok }),
	"none":      kindTest(func(v any) bool { return v == nil }),
	"boolean":   kindTest(func(v any) bool { _, ok := v.(bool); return ok }),
	"true":      kindTest(func(v any) bool { return v == true }),
	"false":     kindTest(func(v any) bool { return v == false }),
	"integer":   kindTest(func(v any) bool { _, ok := v.(int64); return ok }),
	"float":     kindTest(func(v any) bool { _, ok := v.(float64); return ok }),
	"number":    kindTest(func(v any) bool { _, ok := number(v); return ok }),
	"string":    kindTest(func(v any) bool { _, ok := v.(string); return ok }),
	"mapping":   kindTest(func(v any) bool { _, ok := v.(map[string]any); return ok }),
	"callable":  kindTest(func(v any) bool { _, ok := v.(*function); return ok }),
	"iterable":  kindTest(isSequence),
	"sequence":  kindTest(isSequence),

	"odd":         remainderTest(2, 1),
	"even":        remainderTest(2, 0),
	"divisibleby": routineOf("num", func(c *call) any { return c.equal(c.binary("%", c.value, c.argument("num", nil)), int64(0)) }),
	"lower":       caseTest(strings.ToLower, strings.ToUpper),
	"upper":       caseTest(strings.ToUpper, strings.ToLower),
	"sameas":      routineOf("other", func(c *call) any { return c.identical(c.value, c.argument("other", nil)) }),
	"filter":      routineOf("", func(c *call) any { return c.isName(c.filters) }),
	"test":        routineOf("", func(c *call) any { return c.isName(c.tests) }),
	"in":          routineOf("seq", func(c *call) any { return c.contains(c.argument("seq", nil), c.value) }),

	"eq": operatorTest("=="), "equalto": operatorTest("=="), "==": operatorTest("=="),
	"ne": operatorTest("!="), "!=": operatorTest("!="),
	"lt": operatorTest("<"), "lessthan": operatorTest("<"), "<": operatorTest("<"),
	"gt": operatorTest(">"), "greaterthan": operatorTest(">"), ">": operatorTest(">"),
	"le": operatorTest("<="), "<=": operatorTest("<="),
	"ge": operatorTest(">="), ">=": operatorTest(">="),
}

func kindTest(test func(value any) bool) routine {
	return routineOf("", func(c *call) any { return test(c.value) })
}

func isSequence(value any) bool {
	switch value.(type) {
	case undefined, string, []any, map[string]any:
		return true
	}
	return false
}

func remainderTest(divisor, rest int64) routine {
	return routineOf("", func(c *call) any { return c.equal(c.binary("%", c.value, divisor), rest) })
}

// caseTest returns a test that is true for text that has letters, all of the case of same.
func caseTest(same, other func(string) string) routine {
	return routineOf("", func(c *call) any {
		text := c.text(c.value)
		c.read(8 * len(text))
		return same(text) == text && other(text) != text
	})
}

func operatorTest(operator string) routine {
	return routineOf("other", func(c *call) any { return c.compare(operator, c.value, c.argument("other", nil)) })
}

// isName reports whether the value is the name of one of the routines.
func (c *call) isName(routines map[string]routine) bool {
	name, _ := c.value.(string)
	_, ok := routines[name]
	return ok
}
