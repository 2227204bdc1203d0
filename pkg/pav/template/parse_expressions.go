// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"slices"
	"strings"
)

// constants are the names of constants.
var constants = map[string]any{
	"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil,
}

// tuple parses an expression, or several with commas between them, which are a list. Conditional
// expressions are parsed only if conditional is set. A name of ends ends the list.
func (p *parser) tuple(conditional bool, ends ...string) expression {
	element := p.or
	if conditional {
		element = p.expression
	}
	start := p.current().pos
	first := element()
	if !p.is(tokenOperator, ",") {
		return first
	}
	list := &listNode{at: at(start), elements: []expression{first}}
	for p.operator(",") {
		t := p.current()
		if t.kind == tokenVariableEnd || t.kind == tokenBlockEnd || p.is(tokenOperator, ")") ||
			t.kind == tokenName && slices.Contains(ends, t.text) {
			break // a comma at the end
		}
		list.elements = append(list.elements, element())
	}
	return list
}

// expression parses an expression, conditional or not.
func (p *parser) expression() expression {
	return nested(p, func() expression {
		x := p.or()
		for p.is(tokenName, "if") {
			n := &conditionNode{at: at(p.take().pos), then: x, test: p.or()}
			if p.keyword("else") {
				n.otherwise = p.expression()
			}
			x = n
		}
		return x
	})
}

func (p *parser) or() expression {
	x := p.and()
	for p.is(tokenName, "or") {
		x = &logicNode{at: at(p.take().pos), or: true, left: x, right: p.and()}
	}
	return x
}

func (p *parser) and() expression {
	x := p.not()
	for p.is(tokenName, "and") {
		x = &logicNode{at: at(p.take().pos), left: x, right: p.not()}
	}
	return x
}

func (p *parser) not() expression {
	if !p.is(tokenName, "not") {
		return p.compare()
	}
	return &notNode{at: at(p.take().pos), operand: nested(p, p.not)}
}

func (p *parser) compare() expression {
	n := &compareNode{at: at(p.current().pos), first: p.sum()}
	for {
		t := p.current()
		op := t.text
		switch {
		case t.kind == tokenOperator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, op):
		case p.is(tokenName, "in"):
		case p.is(tokenName, "not") && p.tokens[p.next+1].kind == tokenName && p.tokens[p.next+1].text == "in":
			p.next++
			op = "not in"
		case len(n.operands) == 0:
			return n.first
		default:
			return n
		}
		p.next++
		n.operands = append(n.operands, operand{at(t.pos), op, p.sum()})
	}
}

// binary parses operators of one precedence, which group to the left.
func (p *parser) binary(operand func() expression, operators ...string) expression {
	x := operand()
	for {
		t := p.current()
		if t.kind != tokenOperator || !slices.Contains(operators, t.text) {
			return x
		}
		p.next++
		x = &binaryNode{at: at(t.pos), operator: t.text, left: x, right: operand()}
	}
}

func (p *parser) sum() expression     { return p.binary(p.concat, "+", "-") }
func (p *parser) product() expression { return p.binary(p.power, "*", "/", "//", "%") }

// In Jinja2, unlike Python, powers group to the left, and signs bind tighter.
func (p *parser) power() expression {
	return p.binary(func() expression { return p.unary(true) }, "**")
}

func (p *parser) concat() expression {
	n := &concatNode{at: at(p.current().pos), parts: []expression{p.product()}}
	for p.operator("~") {
		n.parts = append(n.parts, p.product())
	}
	if len(n.parts) == 1 {
		return n.parts[0]
	}
	return n
}

func (p *parser) unary(filters bool) expression {
	var x expression
	if t := p.current(); p.operator("-") || p.operator("+") {
		x = &signNode{at: at(t.pos), negative: t.text == "-", operand: nested(p, func() expression { return p.unary(false) })}
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if !filters {
		return x
	}
	for {
		switch {
		case p.operator("|"):
			x = p.filter(x)
		case p.is(tokenName, "is"):
			x = p.test(x)
		case p.is(tokenOperator, "("):
			x = p.call(x)
		default:
			return x
		}
	}
}

func (p *parser) primary() expression {
	t := p.take()
	switch {
	case t.kind == tokenName:
		if value, ok := constants[t.text]; ok {
			return &constNode{at(t.pos), value}
		}
		return &nameNode{at(t.pos), t.text}
	case t.kind == tokenString:
		parts := []string{t.text}
		for p.current().kind == tokenString {
			parts = append(parts, p.take().text)
		}
		return &constNode{at(t.pos), strings.Join(parts, "")}
	case t.kind == tokenNumber:
		return &constNode{at(t.pos), t.number}
	case t.kind == tokenOperator && t.text == "(":
		return p.parentheses(t)
	case t.kind == tokenOperator && t.text == "[":
		n := &listNode{at: at(t.pos)}
		for !p.operator("]") {
			n.elements = append(n.elements, p.expression())
			p.separator("]")
		}
		return n
	case t.kind == tokenOperator && t.text == "{":
		n := &dictNode{at: at(t.pos)}
		for !p.operator("}") {
			n.keys = append(n.keys, p.expression())
			p.expect(tokenOperator, ":")
			n.values = append(n.values, p.expression())
			p.separator("}")
		}
		return n
	}
	p.fail(t.pos, "expected an expression, found %s", t)
	return nil
}

// separator requires a comma, or that the closing bracket is next.
func (p *parser) separator(closing string) {
	if !p.is(tokenOperator, closing) {
		p.expect(tokenOperator, ",")
	}
}

func (p *parser) parentheses(open token) expression {
	if p.operator(")") {
		return &listNode{at: at(open.pos)}
	}
	x := nested(p, func() expression { return p.tuple(true) })
	p.expect(tokenOperator, ")")
	return x
}

// postfix parses attributes, subscripts and calls.
func (p *parser) postfix(x expression) expression {
	for {
		switch t := p.current(); {
		case p.operator("."):
			switch name := p.take(); name.kind {
			case tokenName:
				x = &attributeNode{at(name.pos), x, name.text}
			case tokenNumber:
				if _, ok := name.number.(int64); !ok {
					p.fail(name.pos, "expected a name or an integer after the dot")
				}
				x = &itemNode{at(name.pos), x, &constNode{at(name.pos), name.number}}
			default:
				p.fail(name.pos, "expected a name or an integer after the dot, found %s", name)
			}
		case p.operator("["):
			x = p.subscript(x, t)
		case p.is(tokenOperator, "("):
			x = p.call(x)
		default:
			return x
		}
	}
}

func (p *parser) subscript(object expression, open token) expression {
	var parts [3]expression
	colons := 0
	for !p.operator("]") {
		switch {
		case p.is(tokenOperator, ":") && colons < 2:
			p.next++
			colons++
		case parts[colons] == nil:
			parts[colons] = p.expression()
		default:
			p.fail(p.current().pos, "expected ']', found %s", p.current())
		}
	}
	switch {
	case colons > 0:
		return &sliceNode{at(open.pos), object, parts[0], parts[1], parts[2]}
	case parts[0] == nil:
		p.fail(open.pos, "the subscript is empty")
	}
	return &itemNode{at(open.pos), object, parts[0]}
}

func (p *parser) call(callee expression) expression {
	return &callNode{at: at(callee.position()), callee: callee, arguments: p.arguments()}
}

// arguments parses the arguments of a call, with their parentheses.
func (p *parser) arguments() argumentNodes {
	var a argumentNodes
	p.expect(tokenOperator, "(")
	for !p.operator(")") {
		t := p.current()
		switch {
		case p.is(tokenOperator, "*"), p.is(tokenOperator, "**"):
			p.fail(t.pos, "arguments with %s are not supported", t)
		case t.kind == tokenName && p.tokens[p.next+1].kind == tokenOperator && p.tokens[p.next+1].text == "=":
			p.next += 2
			if slices.Contains(a.names, t.text) {
				p.fail(t.pos, "the argument %s is given twice", t.text)
			}
			a.names = append(a.names, t.text)
			a.named = append(a.named, p.expression())
		case len(a.names) > 0:
			p.fail(t.pos, "arguments without a name must be before those with one")
		default:
			a.positional = append(a.positional, p.expression())
		}
		p.separator(")")
	}
	return a
}

// filter parses a filter after its |. The operand is nil for the filters of a set block.
func (p *parser) filter(operand expression) *filterNode {
	name := p.expectName()
	n := &filterNode{at: at(name.pos), operand: operand, name: name.text}
	if p.is(tokenOperator, "(") {
		n.arguments = p.arguments()
	}
	p.check(name, "filter", filters, n.arguments)
	return n
}

// test parses is, not if there is one, and a test. One argument may be without parentheses.
func (p *parser) test(operand expression) expression {
	p.take()
	n := &testNode{operand: operand, negated: p.keyword("not")}
	name := p.expectName()
	n.at, n.name = at(name.pos), name.text
	switch t := p.current(); {
	case p.is(tokenOperator, "("):
		n.arguments = p.arguments()
	case p.is(tokenName, "is"):
		p.fail(t.pos, "tests cannot be chained with is")
	case t.kind == tokenName && !slices.Contains([]string{"else", "or", "and"}, t.text),
		t.kind == tokenString, t.kind == tokenNumber, p.is(tokenOperator, "["), p.is(tokenOperator, "{"):
		n.arguments.positional = []expression{p.postfix(p.primary())}
	}
	p.check(name, "test", tests, n.arguments)
	return n
}

// check reports a filter or test that does not exist, or that does not have these parameters.
func (p *parser) check(name token, kind string, all map[string]routine, a argumentNodes) {
	r, ok := all[name.text]
	if !ok {
		p.fail(name.pos, "unknown %s %s; the %ss are %s", kind, name, kind, names(all))
	}
	if reason := r.reject(len(a.positional), a.names); reason != "" {
		p.fail(name.pos, "%s %s: %s", kind, name.text, reason)
	}
}
