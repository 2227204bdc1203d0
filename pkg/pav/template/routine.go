// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// routine is a filter, test, method or function.
type routine struct {
	// parameters are the names of the parameters, in order; those from required on are optional.
	parameters []string
	required   int
	// open routines accept more arguments than they have parameters.
	open bool
	run  func(c *call) any
}

// routineOf returns a routine. Parameters are separated by spaces, optional ones end in "?", and
// "..." at the end makes it open.
func routineOf(parameters string, run func(c *call) any) routine {
	r := routine{run: run}
	for p := range strings.FieldsSeq(parameters) {
		name, optional := strings.CutSuffix(p, "?")
		switch {
		case p == "...":
			r.open = true
			continue
		case !optional:
			r.required++
		}
		r.parameters = append(r.parameters, name)
	}
	return r
}

// reject returns why a routine cannot be called with some positional and named arguments, or "".
func (r routine) reject(positional int, named []string) string {
	if positional > len(r.parameters) && !r.open {
		return fmt.Sprintf("at most %d arguments are allowed, not %d", len(r.parameters), positional)
	}
	for _, name := range named {
		i := slices.Index(r.parameters, name)
		switch {
		case i < 0 && !r.open && len(r.parameters) == 0:
			return "no argument has the name " + name
		case i < 0 && !r.open:
			return fmt.Sprintf("no argument has the name %s; the arguments are %s", name, strings.Join(r.parameters, ", "))
		case i >= 0 && i < positional:
			return fmt.Sprintf("the argument %s is given twice", name)
		}
	}
	for i := positional; i < r.required; i++ {
		if !slices.Contains(named, r.parameters[i]) {
			return fmt.Sprintf("the argument %s is missing", r.parameters[i])
		}
	}
	return ""
}

// arguments are the values of the arguments of a call.
type arguments struct {
	positional []any
	names      []string
	named      []any // one for each of names
}

func (e *evaluator) arguments(nodes argumentNodes) arguments {
	return arguments{e.evalAll(nodes.positional), nodes.names, e.evalAll(nodes.named)}
}

// call is a routine that runs.
type call struct {
	*evaluator
	// value is what a filter, test or method is applied to.
	value any
	// parameters are the arguments of the routine's parameters, by name.
	parameters map[string]any
	// rest and named are the arguments of an open routine that are not for its parameters.
	rest  []any
	named map[string]any
}

// invoke runs a routine. The name is for messages.
func (e *evaluator) invoke(name string, r routine, value any, a arguments) any {
	if reason := r.reject(len(a.positional), a.names); reason != "" {
		e.fail("%s: %s", name, reason)
	}
	c := &call{evaluator: e, value: value, parameters: map[string]any{}, named: map[string]any{}}
	for i, v := range a.positional {
		if i < len(r.parameters) {
			c.parameters[r.parameters[i]] = v
		} else {
			c.rest = append(c.rest, v)
		}
	}
	for i, name := range a.names {
		if slices.Contains(r.parameters, name) {
			c.parameters[name] = a.named[i]
		} else {
			c.named[name] = a.named[i]
		}
	}
	return r.run(c)
}

// The values of parameters, or what is returned where an optional one is not given.

func (c *call) argument(name string, otherwise any) any {
	if value, ok := c.parameters[name]; ok {
		return value
	}
	return otherwise
}

func (c *call) isNone(name string) bool { return c.argument(name, nil) == nil }

func (c *call) integerArgument(name string, otherwise int64) int64 {
	value := c.argument(name, otherwise)
	i, ok := value.(int64)
	if !ok {
		c.need(value)
		c.fail("the argument %s must be an integer, not %s", name, kind(value))
	}
	return i
}

func (c *call) stringArgument(name, otherwise string) string {
	return c.requireString(c.argument(name, otherwise), "the argument "+name)
}

func (c *call) truthArgument(name string) bool { return c.truth(c.argument(name, false)) }

// requireString returns a value that must be a string; what is its name in messages.
func (c *call) requireString(value any, what string) string {
	text, ok := value.(string)
	if !ok {
		c.need(value)
		c.fail("%s must be a string, not %s", what, kind(value))
	}
	return text
}

// callFunction calls a function of the scope.
func (c *call) callFunction(name string, f Function) any {
	if len(c.named) > 0 {
		c.fail("%s: arguments have no names", name)
	}
	for _, v := range c.rest {
		c.plain(v)
	}
	result, err := f(c.rest)
	if err != nil {
		c.fail("%s: %s", name, err)
	}
	return result
}

func (n *callNode) eval(e *evaluator) any {
	attribute, ok := n.callee.(*attributeNode)
	if !ok {
		return e.callValue(e.eval(n.callee), n.arguments)
	}
	object := e.eval(attribute.object)
	e.need(object)
	if r, ok := methods(object)[attribute.name]; ok {
		return e.invoke(attribute.name, r, object, e.arguments(n.arguments))
	}
	value := e.attribute(object, attribute.name, attribute)
	if _, ok := value.(undefined); ok {
		e.fail("%s has no method '%s'", kind(object), attribute.name)
	}
	return e.callValue(value, n.arguments)
}

func (e *evaluator) callValue(value any, nodes argumentNodes) any {
	e.need(value)
	f, ok := value.(*function)
	if !ok {
		e.fail("%s cannot be called", kind(value))
	}
	return e.invoke(f.name, f.routine, nil, e.arguments(nodes))
}

func (n *filterNode) eval(e *evaluator) any { return n.apply(e, e.eval(n.operand)) }

func (n *filterNode) apply(e *evaluator, value any) any {
	return e.invoke(n.name, filters[n.name], value, e.arguments(n.arguments))
}

func (n *testNode) eval(e *evaluator) any {
	value := e.eval(n.operand)
	return e.truth(e.invoke(n.name, tests[n.name], value, e.arguments(n.arguments))) != n.negated
}

// names returns the names of routines, for messages.
func names(all map[string]routine) string {
	return strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// globals are the functions that every template can call.
var globals = map[string]routine{
	"range":     routineOf("start stop? step?", (*call).rangeFunction),
	"dict":      routineOf("base? ...", func(c *call) any { return c.newDict() }),
	"namespace": routineOf("base? ...", func(c *call) any { return &namespace{c.newDict()} }),
}

func (c *call) rangeFunction() any {
	start, stop, step := int64(0), c.integerArgument("start", 0), c.integerArgument("step", 1)
	if _, ok := c.parameters["stop"]; ok {
		start, stop = stop, c.integerArgument("stop", 0)
	}
	if step == 0 {
		c.fail("range: the step cannot be 0")
	}
	var all []any
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		c.produceList(1)
		all = append(all, i)
		if next := i + step; (next > i) != (step > 0) {
			break // overflow
		}
	}
	return all
}

// newDict returns a dict of the entries of base and the named arguments.
func (c *call) newDict() map[string]any {
	if len(c.rest) > 0 {
		c.fail("at most one argument has no name")
	}
	dict := map[string]any{}
	if base, ok := c.parameters["base"]; ok {
		entries, ok := base.(map[string]any)
		if !ok {
			c.need(base)
			c.fail("the argument must be a dict, not %s", kind(base))
		}
		c.produce(len(entries) * entryBytes)
		c.step(len(entries))
		maps.Copy(dict, entries)
	}
	c.produce(len(c.named) * entryBytes)
	maps.Copy(dict, c.named)
	return dict
}
