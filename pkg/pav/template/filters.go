// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// filters are those of jinja2/filters.py that templates of provisioners use, with the same
// parameters, and tobash of the seed.
var filters = map[string]routine{
	"default": routineOf("default_value? boolean?", (*call).defaultFilter),
	"d":       routineOf("default_value? boolean?", (*call).defaultFilter),
	"tojson":  routineOf("indent?", (*call).toJSON),
	"tobash":  routineOf("", (*call).toBash),

	"abs":    routineOf("", (*call).abs),
	"float":  routineOf("default?", (*call).toFloat),
	"int":    routineOf("default? base?", (*call).toInt),
	"round":  routineOf("precision? method?", (*call).round),
	"string": routineOf("", func(c *call) any { return c.text(c.value) }),

	"capitalize": textFilter(capitalize),
	"lower":      textFilter(strings.ToLower),
	"title":      textFilter(title),
	"upper":      textFilter(strings.ToUpper),
	"format":     routineOf("...", (*call).formatFilter),
	"indent":     routineOf("width? first? blank?", (*call).indent),
	"join":       routineOf("d? attribute?", (*call).join),
	"replace":    routineOf("old new count?", (*call).replaceFilter),
	"trim":       routineOf("chars?", func(c *call) any { return c.trim(c.text(c.value), strings.TrimFunc) }),

	"count":      routineOf("", func(c *call) any { return c.length(c.value) }),
	"length":     routineOf("", func(c *call) any { return c.length(c.value) }),
	"dictsort":   routineOf("case_sensitive? by? reverse?", (*call).dictSort),
	"first":      routineOf("", (*call).first),
	"items":      routineOf("", (*call).itemsFilter),
	"last":       routineOf("", (*call).last),
	"list":       routineOf("", func(c *call) any { return c.elements(c.value) }),
	"map":        routineOf("...", (*call).mapFilter),
	"max":        routineOf("case_sensitive? attribute?", func(c *call) any { return c.extreme(1) }),
	"min":        routineOf("case_sensitive? attribute?", func(c *call) any { return c.extreme(-1) }),
	"reject":     routineOf("...", func(c *call) any { return c.choose(nil, c.rest, false) }),
	"rejectattr": routineOf("attribute ...", func(c *call) any { return c.choose(c.attributeArgument(), c.rest, false) }),
	"reverse":    routineOf("", (*call).reverse),
	"select":     routineOf("...", func(c *call) any { return c.choose(nil, c.rest, true) }),
	"selectattr": routineOf("attribute ...", func(c *call) any { return c.choose(c.attributeArgument(), c.rest, true) }),
	"sort":       routineOf("reverse? case_sensitive? attribute?", (*call).sort),
	"sum":        routineOf("attribute? start?", (*call).sum),
	"unique":     routineOf("case_sensitive? attribute?", (*call).unique),
}

func (c *call) defaultFilter() any {
	if _, ok := c.value.(undefined); ok || c.truthArgument("boolean") && !c.truth(c.value) {
		return c.argument("default_value", "")
	}
	return c.value
}

func (c *call) abs() any {
	c.need(c.value)
	x, ok := number(c.value)
	if !ok {
		c.fail("abs: %s is not a number", kind(c.value))
	}
	i, ok := x.(int64)
	switch {
	case !ok:
		return math.Abs(x.(float64))
	case i < 0:
		return c.binary("-", int64(0), i)
	}
	return i
}

// The numbers that Python's float and int accept, without spaces around them.
var (
	floatText  = regexp.MustCompile(`^(?i)[+-]?(?:(?:[0-9](?:_?[0-9])*(?:\.(?:[0-9](?:_?[0-9])*)?)?|\.[0-9](?:_?[0-9])*)(?:e[+-]?[0-9](?:_?[0-9])*)?|inf|infinity|nan)$`)
	digitsText = regexp.MustCompile(`^[0-9a-z](?:_?[0-9a-z])*$`)
)

// parseFloat returns Python's float(text).
func parseFloat(text string) (float64, bool) {
	text = strings.TrimFunc(text, isSpace)
	if !floatText.MatchString(text) {
		return 0, false
	}
	f, _ := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64) // out of range is infinite
	return f, true
}

func (c *call) toFloat() any {
	c.need(c.value)
	if text, ok := c.value.(string); ok {
		c.read(8 * len(text))
		if f, ok := parseFloat(text); ok {
			return f
		}
	} else if x, ok := number(c.value); ok {
		return toFloat(x)
	}
	return c.argument("default", 0.0)
}

func (c *call) toInt() any {
	c.need(c.value)
	base := c.integerArgument("base", 10)
	if base != 0 && (base < 2 || base > 36) {
		c.fail("int: the base must be 0 or between 2 and 36")
	}
	x, ok := number(c.value)
	if text, isText := c.value.(string); isText {
		c.read(8 * len(text))
		if i, ok := c.parseInt(text, int(base)); ok {
			return i
		}
		f, isFloat := parseFloat(text)
		x, ok = f, isFloat && !math.IsInf(f, 0)
	}
	f, isFloat := x.(float64)
	switch {
	case !ok || isFloat && math.IsNaN(f):
		return c.argument("default", int64(0))
	case !isFloat:
		return x
	case f < -1<<63 || f >= 1<<63:
		c.fail("the integer is outside of the range of 64 bits")
	}
	return int64(f)
}

// parseInt returns Python's int(text, base).
func (c *call) parseInt(text string, base int) (int64, bool) {
	digits := strings.ToLower(strings.TrimFunc(text, isSpace))
	sign := ""
	if strings.HasPrefix(digits, "-") || strings.HasPrefix(digits, "+") {
		sign, digits = digits[:1], digits[1:]
	}
	for prefix, its := range map[string]int{"0b": 2, "0o": 8, "0x": 16} {
		if rest, ok := strings.CutPrefix(digits, prefix); ok && (base == 0 || base == its) {
			base, digits = its, strings.TrimPrefix(rest, "_")
			break
		}
	}
	if base == 0 {
		if digits != "" && digits[0] == '0' && strings.Trim(digits, "0_") != "" {
			return 0, false
		}
		base = 10
	}
	if !digitsText.MatchString(digits) {
		return 0, false
	}
	i, err := strconv.ParseInt(sign+strings.ReplaceAll(digits, "_", ""), base, 64)
	if errors.Is(err, strconv.ErrRange) {
		c.fail("the integer is outside of the range of 64 bits")
	}
	return i, err == nil
}

func (c *call) round() any {
	c.need(c.value)
	x, ok := number(c.value)
	if !ok {
		c.fail("round: %s is not a number", kind(c.value))
	}
	precision := c.integerArgument("precision", 0)
	if precision < -400 || precision > 400 {
		c.fail("round: the precision must be between -400 and 400")
	}
	method := c.stringArgument("method", "common")
	switch method {
	case "common":
		if i, ok := x.(int64); ok {
			return c.roundInteger(i, precision)
		}
		return roundFloat(x.(float64), int(precision))
	case "ceil", "floor":
	default:
		c.fail("round: the method must be common, ceil or floor")
	}
	scale := c.binary("**", int64(10), precision)
	scaled := toFloat(c.binary("*", x, scale))
	if method == "ceil" {
		scaled = math.Ceil(scaled)
	} else {
		scaled = math.Floor(scaled)
	}
	if math.IsInf(scaled, 0) || math.IsNaN(scaled) {
		c.fail("round: the result is not a finite number")
	}
	return c.binary("/", scaled, scale)
}

// roundInteger rounds to a multiple of a power of ten, halves to even.
func (c *call) roundInteger(i, precision int64) any {
	switch {
	case precision >= 0:
		return i
	case precision < -18:
		return int64(0)
	}
	unit := c.integerPower(10, -precision).(int64)
	rest := c.integers("%", i, unit).(int64)
	down := c.integers("//", i, unit).(int64)
	if half := unit / 2; rest > half || rest == half && down%2 != 0 {
		down++
	}
	return c.integers("*", down, unit)
}

// roundFloat rounds to a number of decimal places, halves of the exact value to even.
func roundFloat(f float64, precision int) float64 {
	if precision >= 0 {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
		return rounded
	}
	unit := math.Pow10(-precision)
	if math.IsInf(unit, 0) {
		return math.Copysign(0, f)
	}
	return math.RoundToEven(f/unit) * unit
}

func (c *call) reverse() any {
	if text, ok := c.value.(string); ok {
		letters := slices.Clone(c.characters(text))
		slices.Reverse(letters)
		return c.joinAll(letters, "")
	}
	elements := c.elements(c.value)
	c.produceList(len(elements))
	reversed := slices.Clone(elements)
	slices.Reverse(reversed)
	return reversed
}
