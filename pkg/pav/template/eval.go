// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"slices"
	"strings"
	"unicode/utf8"
)

func (n *constNode) eval(*evaluator) any { return n.value }

func (n *nameNode) eval(e *evaluator) any {
	value := e.lookup(n.name)
	if _, ok := value.(undefined); ok {
		return undefined{node: n}
	}
	return value
}

// lookup returns the value of a name.
func (e *evaluator) lookup(name string) any {
	e.read(len(name) * len(e.scopes))
	for _, scope := range slices.Backward(e.scopes) {
		if value, ok := scope[name]; ok {
			return value
		}
	}
	if value, ok := e.scope.Variables[name]; ok {
		return value
	}
	if f, ok := e.scope.Functions[name]; ok {
		return &function{name, routine{open: true, run: func(c *call) any { return c.callFunction(name, f) }}}
	}
	if r, ok := globals[name]; ok {
		return &function{name, r}
	}
	return undefined{}
}

func (n *attributeNode) eval(e *evaluator) any {
	return e.attribute(e.eval(n.object), n.name, n)
}

// attribute returns object.name; node is what is undefined if there is no such attribute. Methods
// are not attributes: callNode has them.
func (e *evaluator) attribute(object any, name string, node expression) any {
	e.need(object)
	e.read(len(name))
	switch o := object.(type) {
	case map[string]any:
		if value, ok := o[name]; ok {
			return value
		}
	case *namespace:
		if value, ok := o.values[name]; ok {
			return value
		}
	case *loop:
		return o.attribute(name, node)
	}
	return undefined{node: node}
}

func (n *itemNode) eval(e *evaluator) any {
	return e.item(e.eval(n.object), e.eval(n.index), n)
}

// item returns object[index]; node is what is undefined if there is no such element.
func (e *evaluator) item(object, index any, node expression) any {
	e.need(object)
	if key, ok := index.(string); ok {
		return e.attribute(object, key, node)
	}
	number, _ := number(index)
	i, ok := number.(int64)
	if !ok {
		return undefined{node: node}
	}
	switch o := object.(type) {
	case []any:
		if i = fromEnd(i, len(o)); i >= 0 && i < int64(len(o)) {
			return o[i]
		}
	case string:
		e.read(len(o))
		if i = fromEnd(i, utf8.RuneCountInString(o)); i >= 0 && i < int64(len(o)) {
			for _, r := range o {
				if i == 0 {
					return string(r)
				}
				i--
			}
		}
	}
	return undefined{node: node}
}

// fromEnd returns the index that a negative index counts from the end.
func fromEnd(i int64, length int) int64 {
	if i < 0 {
		return i + int64(length)
	}
	return i
}

func (n *sliceNode) eval(e *evaluator) any {
	object := e.eval(n.object)
	e.need(object)
	var bounds [3]*int64
	for i, x := range []expression{n.start, n.stop, n.step} {
		if x == nil {
			continue
		}
		switch v := e.eval(x).(type) {
		case nil:
		case int64:
			bounds[i] = &v
		default:
			e.need(v)
			e.fail("the bounds of a slice are integers, not %s", kind(v))
		}
	}
	if bounds[2] != nil && *bounds[2] == 0 {
		e.fail("the step of a slice cannot be 0")
	}
	switch o := object.(type) {
	case []any:
		return e.slice(o, bounds)
	case string:
		parts := e.slice(e.characters(o), bounds)
		var text strings.Builder
		for _, c := range parts {
			text.WriteString(c.(string))
		}
		return e.newText(text.String())
	}
	e.fail("%s has no slices", kind(object))
	return nil
}

// slice returns list[start:stop:step].
func (e *evaluator) slice(list []any, bounds [3]*int64) []any {
	n := int64(len(list))
	step, low, high := int64(1), int64(0), n
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step < 0 {
		low, high = -1, n-1
	}
	limit := func(bound *int64, otherwise int64) int64 {
		if bound == nil {
			return otherwise
		}
		return min(max(fromEnd(*bound, len(list)), low), high)
	}
	start, stop := limit(bounds[0], low), limit(bounds[1], high)
	if step < 0 {
		start, stop = limit(bounds[0], high), limit(bounds[1], low)
	}
	e.produceList(len(list))
	var result []any
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		result = append(result, list[i])
		if step > n || step < -n {
			break // the next index would be outside, or overflow
		}
	}
	return result
}

func (n *listNode) eval(e *evaluator) any { return e.evalAll(n.elements) }

func (n *dictNode) eval(e *evaluator) any {
	e.produce(len(n.keys) * entryBytes)
	dict := make(map[string]any, len(n.keys))
	for i := range n.keys {
		key := e.eval(n.keys[i])
		name, ok := key.(string)
		if !ok {
			e.need(key)
			e.fail("the keys of a dict are strings, not %s", kind(key))
		}
		e.read(len(name))
		dict[name] = e.eval(n.values[i])
	}
	return dict
}

func (n *notNode) eval(e *evaluator) any { return !e.truth(e.eval(n.operand)) }

func (n *signNode) eval(e *evaluator) any {
	value := e.eval(n.operand)
	e.need(value)
	x, ok := number(value)
	if !ok {
		e.fail("%s has no sign", kind(value))
	}
	if !n.negative {
		return x
	}
	if f, ok := x.(float64); ok {
		return -f
	}
	return e.binary("-", int64(0), x)
}

func (n *binaryNode) eval(e *evaluator) any {
	left := e.eval(n.left)
	return e.binary(n.operator, left, e.eval(n.right))
}

func (n *logicNode) eval(e *evaluator) any {
	if left := e.eval(n.left); e.truth(left) == n.or {
		return left
	}
	return e.eval(n.right)
}

func (n *compareNode) eval(e *evaluator) any {
	left := e.eval(n.first)
	for _, o := range n.operands {
		right := e.eval(o.value)
		e.pos = int(o.at)
		if !e.compare(o.operator, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (n *concatNode) eval(e *evaluator) any {
	var text strings.Builder
	for _, p := range n.parts {
		value := e.eval(p)
		e.pos = p.position()
		part := e.text(value)
		e.produce(len(part))
		e.read(len(part))
		text.WriteString(part)
	}
	return text.String()
}

func (n *conditionNode) eval(e *evaluator) any {
	switch {
	case e.truth(e.eval(n.test)):
		return e.eval(n.then)
	case n.otherwise == nil:
		return undefined{reason: "the condition is false, and there is no else"}
	}
	return e.eval(n.otherwise)
}
