// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// conversion is a conversion of Python's printf-style formatting: flags, width, precision, type.
var conversion = regexp.MustCompile(`%([-+ 0]*)([0-9]*)(\.[0-9]*)?(?s:(.))?`)

// format returns Python's pattern % arguments, for the conversions d, i, u, o, x, X, e, E, f, F,
// g, G and s.
func (e *evaluator) format(pattern string, arguments []any) any {
	e.read(8 * len(pattern))
	var text strings.Builder
	end := 0
	for _, at := range conversion.FindAllStringSubmatchIndex(pattern, -1) {
		part := func(i int) string {
			if at[2*i] < 0 {
				return ""
			}
			return pattern[at[2*i]:at[2*i+1]]
		}
		e.produce(at[0] - end)
		text.WriteString(pattern[end:at[0]])
		end = at[1]
		if part(0) == "%%" {
			text.WriteByte('%')
			continue
		}
		if len(arguments) == 0 {
			e.fail("the format has more conversions than arguments")
		}
		text.WriteString(e.convert(arguments[0], part(1), part(2)+part(3), part(4)))
		arguments = arguments[1:]
	}
	if len(arguments) > 0 {
		e.fail("the format has fewer conversions than arguments")
	}
	return text.String() + e.newText(pattern[end:]).(string)
}

// convert formats one argument. The size is the width and the precision.
func (e *evaluator) convert(argument any, flags, size, verb string) string {
	width, precision, hasPrecision := strings.Cut(size, ".")
	for _, digits := range []string{width, precision} {
		if n, err := strconv.Atoi(digits); digits != "" && (err != nil || n > 1000) {
			e.fail("the width and precision of a conversion are at most 1000")
		}
	}
	e.need(argument)
	var value any
	switch verb {
	case "s":
		value = e.text(argument)
		flags = strings.ReplaceAll(flags, "0", "")
	case "d", "i", "u", "o", "x", "X":
		if hasPrecision {
			e.fail("the conversion %%%s has no precision", verb)
		}
		value = e.integerFor(argument, verb)
		verb = strings.NewReplacer("i", "d", "u", "d").Replace(verb)
	case "e", "E", "f", "F", "g", "G":
		x, ok := number(argument)
		if !ok || math.IsInf(toFloat(x), 0) || math.IsNaN(toFloat(x)) {
			e.fail("the conversion %%%s needs a finite number, not %s", verb, kind(argument))
		}
		value = toFloat(x)
		if !hasPrecision {
			size += ".6"
		}
	default:
		e.fail("the conversion %%%s is not supported; the conversions are d, i, u, o, x, X, e, E, f, F, g, G, s and %%%%", verb)
	}
	formatted := fmt.Sprintf("%"+flags+size+verb, value)
	e.produce(len(formatted))
	e.read(len(formatted))
	return formatted
}

// integerFor returns the integer of a number that a conversion prints.
func (e *evaluator) integerFor(argument any, verb string) any {
	x, ok := number(argument)
	f, isFloat := x.(float64)
	switch {
	case ok && !isFloat:
		return x
	case ok && strings.Contains("diu", verb) && f >= -1<<63 && f < 1<<63:
		return int64(f)
	}
	e.fail("the conversion %%%s needs an integer, not %s", verb, kind(argument))
	return nil
}
