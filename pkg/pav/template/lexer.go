// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind int

const (
	tokenEOF tokenKind = iota
	tokenData
	tokenVariableBegin
	tokenVariableEnd
	tokenBlockBegin
	tokenBlockEnd
	tokenName
	tokenString
	tokenNumber
	tokenOperator
)

// token is a part of the source.
type token struct {
	kind tokenKind
	// text is the data, name, operator, or decoded string.
	text string
	// number is the int64 or float64 of a tokenNumber.
	number any
	pos    int
}

func (t token) String() string {
	switch t.kind {
	case tokenEOF:
		return "the end of the template"
	case tokenVariableEnd:
		return "the end of the expression"
	case tokenBlockEnd:
		return "the end of the statement"
	case tokenString:
		return "a string"
	case tokenNumber:
		return "a number"
	case tokenData, tokenVariableBegin, tokenBlockBegin, tokenName, tokenOperator:
	}
	return "'" + t.text + "'"
}

// lexer splits a source into tokens, with the whitespace rules of jinja2/lexer.py.
type lexer struct {
	source string
	pos    int
	tokens []token
	// lineStarting reports that the last tag consumed the end of its line.
	lineStarting bool
	// brackets are the closing brackets that the current tag needs, innermost last.
	brackets []byte
}

// lex returns the tokens of a source, ending with a tokenEOF.
func lex(source string) []token {
	l := &lexer{source: strings.TrimSuffix(source, "\n"), lineStarting: true}
	for l.pos < len(l.source) {
		l.next()
	}
	l.emit(tokenEOF, "", l.pos)
	return l.tokens
}

func (l *lexer) emit(kind tokenKind, text string, pos int) {
	l.tokens = append(l.tokens, token{kind: kind, text: text, pos: pos})
}

func (l *lexer) fail(pos int, format string, args ...any) {
	panic(errorAt(l.source, pos, format, args...))
}

// next lexes the text before the next tag, and the tag.
func (l *lexer) next() {
	start, open := l.pos, l.nextTag()
	if open < 0 {
		l.emit(tokenData, l.source[start:], start)
		l.pos = len(l.source)
		return
	}
	kind := l.source[open+1]
	inside, sign := l.sign(open + 2)
	l.text(start, open, sign, kind == '{')
	l.pos, l.lineStarting = inside, false
	switch kind {
	case '{':
		l.emit(tokenVariableBegin, "{{", open)
		l.tag(open, tokenVariableEnd, l.variableEnd)
	case '#':
		l.comment(open)
	default:
		if end, ok := l.keyword(inside, "raw", l.rawEnd); ok {
			l.moveTo(end)
			l.raw(open)
			return
		}
		l.emit(tokenBlockBegin, "{%", open)
		l.tag(open, tokenBlockEnd, l.blockEnd)
	}
}

// moveTo ends a tag at a position.
func (l *lexer) moveTo(end int) {
	l.pos, l.lineStarting = end, l.source[end-1] == '\n'
}

// nextTag returns where the next {{, {% or {# is, or -1.
func (l *lexer) nextTag() int {
	for i := l.pos; ; i++ {
		found := strings.IndexByte(l.source[i:], '{')
		if found < 0 || i+found+1 >= len(l.source) {
			return -1
		}
		i += found
		switch l.source[i+1] {
		case '{', '%', '#':
			return i
		}
	}
}

// sign returns the whitespace control of a tag, - or +, or 0, and where the tag continues.
func (l *lexer) sign(at int) (inside int, sign byte) {
	if at < len(l.source) && (l.source[at] == '-' || l.source[at] == '+') {
		return at + 1, l.source[at]
	}
	return at, 0
}

// text emits the text between two positions, without what the tag that follows strips.
func (l *lexer) text(start, end int, sign byte, variable bool) {
	text := l.source[start:end]
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign == 0 && !variable:
		line := strings.LastIndexByte(text, '\n') + 1
		if (line > 0 || l.lineStarting) && strings.TrimLeftFunc(text[line:], isSpace) == "" {
			text = text[:line]
		}
	}
	if text != "" {
		l.emit(tokenData, text, start)
	}
}

func (l *lexer) comment(open int) {
	found := strings.Index(l.source[l.pos:], "#}")
	if found < 0 {
		l.fail(open, "the comment has no end, #}")
	}
	end := l.pos + found + 2
	switch sign := l.source[end-3]; {
	case found > 0 && sign == '-':
		end = l.skipSpace(end)
	case found > 0 && sign == '+':
	case l.has(end, "\n"):
		end++
	}
	l.moveTo(end)
}

// raw lexes the text of a raw block up to its end tag.
func (l *lexer) raw(open int) {
	for at := l.pos; ; at += 2 {
		found := strings.Index(l.source[at:], "{%")
		if found < 0 {
			l.fail(open, "the raw block has no end, {%% endraw %%}")
		}
		at += found
		inside, sign := l.sign(at + 2)
		if end, ok := l.keyword(inside, "endraw", l.blockEnd); ok {
			l.text(l.pos, at, sign, false)
			l.moveTo(end)
			return
		}
	}
}

// keyword reports whether a tag, from its inside, has one word only, and where the tag ends.
func (l *lexer) keyword(inside int, word string, end func(int) (int, bool)) (int, bool) {
	at := l.skipSpace(inside)
	if !l.has(at, word) {
		return 0, false
	}
	return end(l.skipSpace(at + len(word)))
}

func (l *lexer) has(at int, prefix string) bool {
	return strings.HasPrefix(l.source[at:], prefix)
}

// The ends of tags: each returns where the text after the tag begins.

func (l *lexer) variableEnd(at int) (int, bool) {
	if l.has(at, "-}}") {
		return l.skipSpace(at + 3), true
	}
	return at + 2, l.has(at, "}}")
}

func (l *lexer) rawEnd(at int) (int, bool) {
	if l.has(at, "-%}") {
		return l.skipSpace(at + 3), true
	}
	return at + 2, l.has(at, "%}")
}

func (l *lexer) blockEnd(at int) (int, bool) {
	switch {
	case l.has(at, "+%}"):
		return at + 3, true
	case l.has(at, "%}\n"):
		return at + 3, true
	}
	return l.rawEnd(at)
}

func (l *lexer) skipSpace(at int) int {
	rest := l.source[at:]
	return at + len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
}

// isSpace reports whether Python's str.isspace would.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}

// tag lexes the tokens of an expression or statement and its end.
func (l *lexer) tag(open int, kind tokenKind, end func(int) (int, bool)) {
	l.brackets = l.brackets[:0]
	for {
		l.pos = l.skipSpace(l.pos)
		if l.pos >= len(l.source) {
			l.fail(open, "%s is not closed", l.source[open:open+2])
		}
		if after, ok := end(l.pos); ok && len(l.brackets) == 0 {
			l.emit(kind, "", l.pos)
			l.moveTo(after)
			return
		}
		l.token()
	}
}

// token lexes one token inside of a tag.
func (l *lexer) token() {
	r, _ := utf8.DecodeRuneInString(l.source[l.pos:])
	switch {
	case r >= '0' && r <= '9':
		l.number()
	case r == '_' || unicode.IsLetter(r):
		l.name()
	case r == '\'' || r == '"':
		l.string(byte(r))
	default:
		l.operator()
	}
}

func (l *lexer) name() {
	rest := l.source[l.pos:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc)
	})
	if end < 0 {
		end = len(rest)
	}
	l.emit(tokenName, rest[:end], l.pos)
	l.pos += end
}

var closing = map[byte]byte{'(': ')', '[': ']', '{': '}'}

func (l *lexer) operator() {
	n := 1
	if l.pos+1 < len(l.source) {
		switch l.source[l.pos : l.pos+2] {
		case "//", "**", "==", "!=", ">=", "<=":
			n = 2
		}
	}
	text := l.source[l.pos : l.pos+n]
	if n == 1 && !strings.Contains("+-/*%~[](){}<>=.:|,;", text) {
		r, _ := utf8.DecodeRuneInString(l.source[l.pos:])
		l.fail(l.pos, "unexpected character %q", r)
	}
	switch c := text[0]; c {
	case '(', '[', '{':
		l.brackets = append(l.brackets, closing[c])
	case ')', ']', '}':
		last := len(l.brackets) - 1
		if last < 0 {
			l.fail(l.pos, "unexpected '%c'", c)
		}
		if want := l.brackets[last]; want != c {
			l.fail(l.pos, "unexpected '%c', expected '%c'", c, want)
		}
		l.brackets = l.brackets[:last]
	}
	l.emit(tokenOperator, text, l.pos)
	l.pos += n
}
