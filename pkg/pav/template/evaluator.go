// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import "strings"

// evaluator is the state of one execution of a template.
type evaluator struct {
	source string
	scope  Scope
	budget *Budget
	out    *strings.Builder
	// scopes are the variables that the template has set, innermost last.
	scopes []map[string]any
	depth  int
	// pos is where the node that is evaluated is in the source.
	pos int
	// filters and tests are the tables of that name, which their own functions cannot refer to.
	filters, tests map[string]routine
}

func newEvaluator(source string, s Scope) *evaluator {
	e := &evaluator{
		source: source, scope: s, budget: s.Budget, out: &strings.Builder{},
		scopes: []map[string]any{{}}, filters: filters, tests: tests,
	}
	if e.budget == nil {
		e.budget = DefaultBudget()
	}
	return e
}

// fail ends the execution with an error at the current node.
func (e *evaluator) fail(format string, args ...any) {
	panic(errorAt(e.source, e.pos, format, args...))
}

// step takes n steps from the budget.
func (e *evaluator) step(n int) {
	if n > e.budget.Steps {
		e.budget.Steps = 0
		e.fail("the budget of steps is exhausted")
	}
	e.budget.Steps -= n
}

// produce takes n bytes from the budget. It is called before the bytes are allocated.
func (e *evaluator) produce(n int) {
	if n < 0 || n > e.budget.Bytes {
		e.budget.Bytes = 0
		e.fail("the budget of bytes is exhausted")
	}
	e.budget.Bytes -= n
}

// read takes the steps for reading texts of n bytes.
func (e *evaluator) read(n int) { e.step(1 + n/64) }

// What an element of a list and an entry of a dict count in the budget of bytes.
const (
	elementBytes = 16
	entryBytes   = 64
)

// produceList takes what a list of n elements needs from the budget.
func (e *evaluator) produceList(n int) {
	e.step(n)
	e.produce(n * elementBytes)
}

// deeper runs f one level of nesting deeper.
func (e *evaluator) deeper(f func()) {
	e.depth++
	if e.depth > e.budget.Depth {
		e.fail("expressions or values are nested more than %d levels deep", e.budget.Depth)
	}
	f()
	e.depth--
}

// eval evaluates a node. After it, the current node is again the one that called it.
func (e *evaluator) eval(x expression) (value any) {
	outer := e.pos
	e.pos = x.position()
	e.step(1)
	e.deeper(func() { value = x.eval(e) })
	e.pos = outer
	return value
}

func (e *evaluator) evalAll(nodes []expression) []any {
	e.produceList(len(nodes))
	values := make([]any, len(nodes))
	for i, n := range nodes {
		values[i] = e.eval(n)
	}
	return values
}

func (e *evaluator) statements(body []statement) {
	for _, s := range body {
		e.step(1)
		s.exec(e)
	}
}

// inScope runs f with a scope of its own.
func (e *evaluator) inScope(f func()) {
	e.scopes = append(e.scopes, map[string]any{})
	e.produce(entryBytes)
	f()
	e.scopes = e.scopes[:len(e.scopes)-1]
}

func (e *evaluator) set(name string, value any) {
	e.produce(entryBytes)
	e.read(len(name))
	e.scopes[len(e.scopes)-1][name] = value
}

func (n textNode) exec(e *evaluator) { e.write(string(n)) }

func (n *printNode) exec(e *evaluator) {
	value := e.eval(n.value)
	e.pos = n.value.position()
	e.write(e.text(value))
}

func (e *evaluator) write(text string) {
	e.produce(len(text))
	e.read(len(text))
	e.out.WriteString(text)
}

func (n *ifNode) exec(e *evaluator) {
	for _, b := range n.branches {
		if e.truth(e.eval(b.test)) {
			e.statements(b.body)
			return
		}
	}
	e.statements(n.otherwise)
}

func (n *setNode) exec(e *evaluator) {
	value := e.eval(n.value)
	e.assign(&n.target, value)
}

func (n *setBlockNode) exec(e *evaluator) {
	outer := e.out
	e.out = &strings.Builder{}
	e.inScope(func() { e.statements(n.body) })
	var value any = e.out.String()
	e.out = outer
	for _, f := range n.filters {
		e.pos = int(f.at)
		value = f.apply(e, value)
	}
	e.assign(&n.target, value)
}

// assign sets the variables of a target.
func (e *evaluator) assign(t *target, value any) {
	e.pos = int(t.at)
	e.step(1)
	switch {
	case t.elements != nil:
		values := e.elements(value)
		if len(values) != len(t.elements) {
			e.fail("cannot assign %d elements to %d names", len(values), len(t.elements))
		}
		for i := range t.elements {
			e.assign(&t.elements[i], values[i])
		}
	case t.attribute != "":
		object, ok := e.lookup(t.name).(*namespace)
		if !ok {
			e.fail("cannot assign to %s.%s: %s is not a namespace", t.name, t.attribute, t.name)
		}
		e.produce(entryBytes)
		object.values[t.attribute] = value
	default:
		if _, ok := value.(bool); t.name == "yaml" && len(e.scopes) == 1 && !ok {
			e.fail("the variable yaml must be true or false, not %s", kind(value))
		}
		e.set(t.name, value)
	}
}

// loop is the variable loop.
type loop struct {
	items []any
	index int // from 0
	// changed are the arguments of the last call of loop.changed.
	changed []any
}

func (n *forNode) exec(e *evaluator) {
	iterable := e.eval(n.iterable)
	e.pos = n.iterable.position()
	items := e.elements(iterable)
	if n.filter != nil {
		items = n.filtered(e, items)
	}
	l := &loop{items: items}
	for i, item := range items {
		e.step(1)
		e.inScope(func() {
			l.index = i
			e.assign(&n.target, item)
			e.set("loop", l)
			e.statements(n.body)
		})
	}
	if len(items) == 0 {
		e.inScope(func() { e.statements(n.otherwise) })
	}
}

func (n *forNode) filtered(e *evaluator, items []any) []any {
	e.produceList(len(items))
	var kept []any
	for _, item := range items {
		e.inScope(func() {
			e.assign(&n.target, item)
			if e.truth(e.eval(n.filter)) {
				kept = append(kept, item)
			}
		})
	}
	return kept
}

// attribute returns loop.name; node is what is undefined if there is no such attribute.
func (l *loop) attribute(name string, node expression) any {
	i, n := int64(l.index), int64(len(l.items))
	switch name {
	case "index":
		return i + 1
	case "index0":
		return i
	case "revindex":
		return n - i
	case "revindex0":
		return n - i - 1
	case "first":
		return i == 0
	case "last":
		return i == n-1
	case "length":
		return n
	case "depth":
		return int64(1)
	case "depth0":
		return int64(0)
	case "previtem":
		if i > 0 {
			return l.items[i-1]
		}
		return undefined{reason: "there is no previous item"}
	case "nextitem":
		if i < n-1 {
			return l.items[i+1]
		}
		return undefined{reason: "there is no next item"}
	}
	return undefined{node: node}
}
