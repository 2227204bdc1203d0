// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"math"
	"math/big"
	"strings"
)

// binary returns the result of an arithmetic operator, as Python computes it. Integers that do
// not fit into int64 are an error.
func (e *evaluator) binary(operator string, left, right any) any {
	e.need(left)
	e.need(right)
	x, leftNumber := number(left)
	y, rightNumber := number(right)
	if !leftNumber || !rightNumber {
		return e.sequenceOperator(operator, left, right)
	}
	i, integer := x.(int64)
	j, alsoInteger := y.(int64)
	if integer && alsoInteger {
		return e.integers(operator, i, j)
	}
	return e.floats(operator, toFloat(x), toFloat(y))
}

// number returns a number as int64 or float64. Booleans are the integers 0 and 1.
func number(value any) (any, bool) {
	switch v := value.(type) {
	case bool:
		if v {
			return int64(1), true
		}
		return int64(0), true
	case int64, float64:
		return v, true
	}
	return nil, false
}

func toFloat(number any) float64 {
	if i, ok := number.(int64); ok {
		return float64(i)
	}
	return number.(float64)
}

func (e *evaluator) sequenceOperator(operator string, left, right any) any {
	if _, ok := number(left); ok && operator == "*" {
		left, right = right, left
	}
	switch l := left.(type) {
	case string:
		if r, ok := right.(string); ok && operator == "+" {
			e.produce(len(l) + len(r))
			e.read(len(l) + len(r))
			return l + r
		}
		if n, ok := number(right); ok && operator == "*" {
			count := e.repetitions(n, len(l))
			e.read(len(l) * count)
			e.produce(len(l) * count)
			return strings.Repeat(l, count)
		}
		if operator == "%" {
			if arguments, ok := right.([]any); ok {
				return e.format(l, arguments)
			}
			return e.format(l, []any{right})
		}
	case []any:
		if r, ok := right.([]any); ok && operator == "+" {
			e.produceList(len(l) + len(r))
			return append(append(make([]any, 0, len(l)+len(r)), l...), r...)
		}
		if n, ok := number(right); ok && operator == "*" {
			count := e.repetitions(n, len(l)*elementBytes)
			e.produceList(len(l) * count)
			all := make([]any, 0, len(l)*count)
			for range count {
				all = append(all, l...)
			}
			return all
		}
	}
	e.fail("the operator %s does not apply to %s and %s", operator, kind(left), kind(right))
	return nil
}

// repetitions returns how often something of some bytes is repeated: n times, if the budget has
// enough bytes.
func (e *evaluator) repetitions(n any, bytes int) int {
	count, ok := n.(int64)
	switch {
	case !ok:
		e.fail("cannot repeat something a fractional number of times")
	case count <= 0 || bytes == 0:
		return 0
	case count > int64(e.budget.Bytes/bytes):
		e.produce(math.MaxInt)
	}
	return int(count)
}

func (e *evaluator) integers(operator string, i, j int64) any {
	if j == 0 && strings.ContainsAny(operator, "/%") {
		e.fail("division by zero")
	}
	switch operator {
	case "/":
		if i == 0 {
			return 0 / float64(j) // big.Rat has no negative zero
		}
		f, _ := new(big.Rat).SetFrac64(i, j).Float64() // correctly rounded, as in Python
		return f
	case "**":
		if j < 0 {
			return e.floats(operator, float64(i), float64(j))
		}
		return e.integerPower(i, j)
	}
	x, y := big.NewInt(i), big.NewInt(j)
	switch operator {
	case "+":
		x.Add(x, y)
	case "-":
		x.Sub(x, y)
	case "*":
		x.Mul(x, y)
	default: // // and %, which round down
		quotient, rest := new(big.Int).QuoRem(x, y, new(big.Int))
		if rest.Sign() != 0 && rest.Sign() != y.Sign() {
			quotient.Sub(quotient, big.NewInt(1))
			rest.Add(rest, y)
		}
		if x = quotient; operator == "%" {
			x = rest
		}
	}
	return e.integer(x)
}

// integer returns an integer as a value.
func (e *evaluator) integer(x *big.Int) any {
	if !x.IsInt64() {
		e.fail("the integer is outside of the range of 64 bits")
	}
	return x.Int64()
}

func (e *evaluator) integerPower(i, j int64) any {
	switch {
	case i == 0 || i == 1 || i == -1: // the only bases with a result for large exponents
		j = min(j, 2+j%2)
	case j > 63:
		j = 64 // too large for all other bases
	}
	return e.integer(new(big.Int).Exp(big.NewInt(i), big.NewInt(j), nil))
}

func (e *evaluator) floats(operator string, x, y float64) any {
	if y == 0 && strings.ContainsAny(operator, "/%") {
		e.fail("division by zero")
	}
	switch operator {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "**":
		return e.floatPower(x, y)
	}
	floor, mod := floatDivMod(x, y)
	if operator == "%" {
		return mod
	}
	return floor
}

func (e *evaluator) floatPower(x, y float64) any {
	result := math.Pow(x, y)
	finite := !math.IsInf(x, 0) && !math.IsInf(y, 0)
	switch {
	case x == 0 && y < 0:
		e.fail("division by zero")
	case finite && math.IsInf(result, 0):
		e.fail("the result of ** is outside of the range of floats")
	case finite && math.IsNaN(result) && !math.IsNaN(x) && !math.IsNaN(y):
		e.fail("a negative number has no fractional power")
	}
	return result
}

// floatDivMod returns the quotient, rounded down, and the rest, which has the sign of y: CPython,
// Objects/floatobject.c, _float_div_mod.
func floatDivMod(x, y float64) (floor, mod float64) {
	mod = math.Mod(x, y)
	div := (x - mod) / y
	if mod == 0 {
		mod = math.Copysign(0, y)
	} else if (y < 0) != (mod < 0) {
		mod += y
		div--
	}
	if div == 0 {
		return math.Copysign(0, x/y), mod
	}
	floor = math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor, mod
}
