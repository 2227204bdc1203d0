// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import "slices"

// maxNesting is how deeply statements and expressions of a source may be nested.
const maxNesting = 100

// parser builds the nodes of a template: the grammar of jinja2/parser.py.
type parser struct {
	source string
	tokens []token // ends with a tokenEOF
	next   int
	depth  int
	// loops is how many for statements surround the current token.
	loops int
}

func (p *parser) fail(pos int, format string, args ...any) {
	panic(errorAt(p.source, pos, format, args...))
}

func (p *parser) current() token { return p.tokens[p.next] }

// take returns the current token and advances.
func (p *parser) take() token {
	t := p.tokens[p.next]
	if t.kind != tokenEOF {
		p.next++
	}
	return t
}

func (p *parser) is(kind tokenKind, text string) bool {
	t := p.current()
	return t.kind == kind && t.text == text
}

// accept advances past a token if it is the current one.
func (p *parser) accept(kind tokenKind, text string) bool {
	if !p.is(kind, text) {
		return false
	}
	p.next++
	return true
}

func (p *parser) operator(text string) bool { return p.accept(tokenOperator, text) }
func (p *parser) keyword(text string) bool  { return p.accept(tokenName, text) }

// expect advances past a token, which must be the current one.
func (p *parser) expect(kind tokenKind, text string) {
	if !p.accept(kind, text) {
		p.fail(p.current().pos, "expected %s, found %s", token{kind: kind, text: text}, p.current())
	}
}

func (p *parser) expectName() token {
	if t := p.current(); t.kind != tokenName {
		p.fail(t.pos, "expected a name, found %s", t)
	}
	return p.take()
}

// nested runs f one level deeper.
func nested[T any](p *parser, f func() T) T {
	p.depth++
	if p.depth > maxNesting {
		p.fail(p.current().pos, "nested more than %d levels deep", maxNesting)
	}
	result := f()
	p.depth--
	return result
}

func (p *parser) template() []statement {
	body, _ := p.body(token{})
	return body
}

// body parses statements up to a tag that begins with one of the ends, and returns that tag's
// token. Without ends, it parses up to the end of the template.
func (p *parser) body(opened token, ends ...string) ([]statement, token) {
	if len(ends) > 0 {
		p.operator(":") // as Python writes it
		p.expect(tokenBlockEnd, "")
	}
	var body []statement
	for {
		switch t := p.take(); t.kind {
		case tokenData:
			body = append(body, textNode(t.text))
		case tokenVariableBegin:
			body = append(body, &printNode{p.tuple(true)})
			p.expect(tokenVariableEnd, "")
		case tokenBlockBegin:
			tag := p.expectName()
			if slices.Contains(ends, tag.text) {
				return body, tag
			}
			body = append(body, nested(p, func() statement { return p.statement(tag) }))
			p.expect(tokenBlockEnd, "")
		default: // tokenEOF: the lexer closes all tags
			if len(ends) > 0 {
				p.fail(opened.pos, "%s has no %s", opened, ends[len(ends)-1])
			}
			return body, t
		}
	}
}

func (p *parser) statement(tag token) statement {
	switch tag.text {
	case "if":
		return p.ifStatement(tag)
	case "for":
		return p.forStatement(tag)
	case "set":
		return p.setStatement(tag)
	case "elif", "else", "endif", "endfor", "endset", "endraw":
		p.fail(tag.pos, "unexpected %s", tag)
	}
	p.fail(tag.pos, "the statement %s is not supported; the statements are for, if, raw and set", tag)
	return nil
}

func (p *parser) ifStatement(tag token) statement {
	n := &ifNode{}
	for {
		test := p.tuple(false)
		body, end := p.body(tag, "elif", "else", "endif")
		n.branches = append(n.branches, branch{test, body})
		switch end.text {
		case "elif":
			continue
		case "else":
			n.otherwise, _ = p.body(tag, "endif")
		}
		return n
	}
}

func (p *parser) forStatement(tag token) statement {
	p.loops++
	n := &forNode{target: p.target(false)}
	p.expect(tokenName, "in")
	n.iterable = p.tuple(false, "recursive")
	if p.keyword("if") {
		n.filter = p.expression()
	}
	if t := p.current(); t.kind == tokenName && t.text == "recursive" {
		p.fail(t.pos, "recursive loops are not supported")
	}
	var end token
	n.body, end = p.body(tag, "else", "endfor")
	p.loops--
	if end.text == "else" {
		n.otherwise, _ = p.body(tag, "endfor")
	}
	return n
}

func (p *parser) setStatement(tag token) statement {
	to := p.target(true)
	if p.operator("=") {
		return &setNode{to, p.tuple(true)}
	}
	n := &setBlockNode{target: to}
	for p.operator("|") {
		n.filters = append(n.filters, p.filter(nil))
	}
	n.body, _ = p.body(tag, "endset")
	return n
}

// target parses what is assigned to: a name, or a list of targets.
func (p *parser) target(attributes bool) target {
	start := p.current().pos
	first := p.primaryTarget(attributes)
	if !p.is(tokenOperator, ",") {
		return first
	}
	list := target{at: at(start), elements: []target{first}}
	for p.operator(",") {
		list.elements = append(list.elements, p.primaryTarget(attributes))
	}
	return list
}

func (p *parser) primaryTarget(attributes bool) target {
	start := p.current()
	if p.operator("(") {
		inner := nested(p, func() target { return p.target(attributes) })
		p.expect(tokenOperator, ")")
		return inner
	}
	name := p.expectName()
	if _, constant := constants[name.text]; constant || name.text == "loop" && p.loops > 0 {
		p.fail(name.pos, "cannot assign to %s", name)
	}
	to := target{at: at(start.pos), name: name.text}
	if attributes && p.operator(".") {
		to.attribute = p.expectName().text
	}
	return to
}
