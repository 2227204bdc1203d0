// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"slices"
	"strconv"
	"strings"
)

func (c *call) first() any {
	elements := c.elements(c.value)
	if len(elements) == 0 {
		return undefined{reason: "there is no first element: the list is empty"}
	}
	return elements[0]
}

func (c *call) last() any {
	elements := c.elements(c.value)
	if len(elements) == 0 {
		return undefined{reason: "there is no last element: the list is empty"}
	}
	return elements[len(elements)-1]
}

func (c *call) itemsFilter() any {
	switch v := c.value.(type) {
	case undefined:
		return []any(nil)
	case map[string]any:
		return c.items(v)
	}
	c.fail("items: %s is not a dict", kind(c.value))
	return nil
}

// mapper is what is done with each element of a list.
type mapper func(element any) any

// attributeArgument returns the mapper to the attribute that the argument attribute names, or nil
// if there is none.
func (c *call) attributeArgument() mapper {
	return c.attributeOf(c.argument("attribute", nil), nil)
}

// attributeOf returns the mapper to an attribute: an index, or names and indexes with dots
// between them. What is undefined on the way is replaced by otherwise, if that is not nil.
func (c *call) attributeOf(attribute, otherwise any) mapper {
	switch a := attribute.(type) {
	case nil:
		return nil
	case int64:
		attribute = formatInt(a)
	}
	name := c.requireString(attribute, "the argument attribute")
	var path []any
	for part := range strings.SplitSeq(name, ".") {
		c.produceList(1)
		if i, err := strconv.ParseUint(part, 10, 63); err == nil && part[0] != '+' {
			path = append(path, int64(i))
		} else {
			path = append(path, part)
		}
	}
	if otherwise == nil {
		otherwise = undefined{reason: "an element has no attribute '" + name + "'"}
	}
	return func(element any) any {
		for _, key := range path {
			c.step(1)
			element = c.item(element, key, nil)
			if _, ok := element.(undefined); ok {
				element = otherwise
			}
		}
		return element
	}
}

// mapAll returns what a mapper makes of each element.
func (e *evaluator) mapAll(elements []any, m mapper) []any {
	e.produceList(len(elements))
	mapped := make([]any, len(elements))
	for i, element := range elements {
		mapped[i] = m(element)
	}
	return mapped
}

// elementsIfTrue returns the elements of the value, which may be anything that is not true.
func (c *call) elementsIfTrue() []any {
	if !c.truth(c.value) {
		return nil
	}
	return c.elements(c.value)
}

func (c *call) mapFilter() any {
	if attribute, ok := c.named["attribute"]; ok && len(c.rest) == 0 {
		for name := range c.named {
			if name != "attribute" && name != "default" {
				c.fail("map: no argument has the name %s; the arguments are attribute, default", name)
			}
		}
		return c.mapAll(c.elementsIfTrue(), c.attributeOf(attribute, c.named["default"]))
	}
	if len(c.rest) == 0 {
		c.fail("map: needs the name of a filter, or attribute=")
	}
	return c.mapAll(c.elementsIfTrue(), c.dynamic("filter", c.filters, c.rest))
}

// dynamic returns the mapper that invokes a filter or test: the first argument is its name, the
// others are its own.
func (c *call) dynamic(kind string, all map[string]routine, positional []any) mapper {
	name := c.requireString(positional[0], "the name of the "+kind)
	r, ok := all[name]
	if !ok {
		c.fail("unknown %s '%s'; the %ss are %s", kind, name, kind, names(all))
	}
	a := arguments{positional: positional[1:]}
	for name := range c.named {
		a.names = append(a.names, name)
	}
	slices.Sort(a.names)
	for _, name := range a.names {
		a.named = append(a.named, c.named[name])
	}
	return func(element any) (result any) {
		c.step(1)
		c.deeper(func() { result = c.invoke(name, r, element, a) })
		return result
	}
}

// choose returns the elements for which a test of their attribute, or of themselves without one,
// has an outcome. Without a test, it is their truth.
func (c *call) choose(attribute mapper, test []any, outcome bool) any {
	elements := c.elementsIfTrue()
	check := func(element any) any { return element }
	if len(test) > 0 {
		check = c.dynamic("test", c.tests, test)
	}
	c.produceList(len(elements))
	var chosen []any
	for _, element := range elements {
		tested := element
		if attribute != nil {
			tested = attribute(element)
		}
		if c.truth(check(tested)) == outcome {
			chosen = append(chosen, element)
		}
	}
	return chosen
}

// key returns the mapper to what elements are compared by: their attribute, or themselves;
// strings without regard to case unless the argument case_sensitive is set.
func (c *call) key(attribute mapper) mapper {
	sensitive := c.truthArgument("case_sensitive")
	return func(element any) any {
		if attribute != nil {
			element = attribute(element)
		}
		if text, ok := element.(string); ok && !sensitive {
			c.read(8 * len(text))
			return c.newText(strings.ToLower(text))
		}
		return element
	}
}

func (c *call) sort() any {
	var keys []mapper
	if names, ok := c.argument("attribute", nil).(string); ok {
		for name := range strings.SplitSeq(names, ",") {
			keys = append(keys, c.key(c.attributeOf(name, nil)))
		}
	} else {
		keys = []mapper{c.key(c.attributeArgument())}
	}
	return c.sortBy(c.elements(c.value), func(element any) any {
		values := make([]any, len(keys))
		c.produceList(len(keys))
		for i, key := range keys {
			values[i] = key(element)
		}
		return values
	})
}

// sortBy returns the elements sorted by their keys, in the reverse order if the argument reverse
// is set. Elements with equal keys keep their order.
func (c *call) sortBy(elements []any, key mapper) any {
	type entry struct{ key, element any }
	entries := make([]entry, len(elements))
	for i, k := range c.mapAll(elements, key) {
		entries[i] = entry{k, elements[i]}
	}
	direction := 1
	if c.truthArgument("reverse") {
		direction = -1
	}
	c.produceList(len(elements))
	slices.SortStableFunc(entries, func(a, b entry) int {
		switch {
		case c.less(a.key, b.key):
			return -direction
		case c.less(b.key, a.key):
			return direction
		}
		return 0
	})
	sorted := make([]any, len(elements))
	for i, entry := range entries {
		sorted[i] = entry.element
	}
	return sorted
}

func (c *call) dictSort() any {
	dict, ok := c.value.(map[string]any)
	if !ok {
		c.need(c.value)
		c.fail("dictsort: %s is not a dict", kind(c.value))
	}
	index := int64(0)
	switch by := c.stringArgument("by", "key"); by {
	case "key":
	case "value":
		index = 1
	default:
		c.fail("dictsort: by must be key or value, not '%s'", by)
	}
	return c.sortBy(c.items(dict), c.key(c.attributeOf(index, nil)))
}

// extreme returns the first of the least elements, or of the greatest if direction is 1.
func (c *call) extreme(direction int) any {
	elements := c.elements(c.value)
	if len(elements) == 0 {
		return undefined{reason: "there is no least or greatest element: the list is empty"}
	}
	key := c.key(c.attributeArgument())
	found, best := elements[0], key(elements[0])
	for _, element := range elements[1:] {
		k := key(element)
		if direction < 0 && c.less(k, best) || direction > 0 && c.less(best, k) {
			found, best = element, k
		}
	}
	return found
}

func (c *call) sum() any {
	elements := c.elements(c.value)
	if a := c.attributeArgument(); a != nil {
		elements = c.mapAll(elements, a)
	}
	total := c.argument("start", int64(0))
	if _, ok := total.(string); ok {
		c.fail("sum: strings are joined with the filter join")
	}
	for _, element := range elements {
		c.step(1)
		total = c.binary("+", total, element)
	}
	return total
}

func (c *call) unique() any {
	elements := c.elements(c.value)
	key := c.key(c.attributeArgument())
	seen := map[any]bool{}
	var kept []any
	for _, element := range elements {
		k := key(element)
		c.step(1)
		if text, ok := k.(string); ok {
			c.read(len(text))
		}
		if n, ok := number(k); ok {
			k = n
			if f, ok := n.(float64); ok && f == float64(int64(f)) {
				k = int64(f)
			}
		}
		switch k.(type) {
		case nil, int64, float64, string:
		default:
			c.need(k)
			c.fail("unique: %s cannot be compared", kind(k))
		}
		if !seen[k] {
			c.produce(entryBytes)
			seen[k] = true
			kept = append(kept, element)
		}
	}
	return kept
}
