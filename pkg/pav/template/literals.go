// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The number literals of jinja2/lexer.py.
var (
	floatLiteral   = regexp.MustCompile(`^(?:[0-9]+_)*[0-9]+(?:(?:\.(?:[0-9]+_)*[0-9]+)?[eE][+-]?(?:[0-9]+_)*[0-9]+|\.(?:[0-9]+_)*[0-9]+)`)
	integerLiteral = regexp.MustCompile(`^(?i:0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[0-9a-f])+|[1-9](?:_?[0-9])*|0(?:_?0)*)`)
)

func (l *lexer) number() {
	rest := l.source[l.pos:]
	t := token{kind: tokenNumber, pos: l.pos}
	// After a dot, 1.2 are two subscripts.
	text := floatLiteral.FindString(rest)
	if text != "" && l.source[l.pos-1] != '.' {
		t.number, _ = strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64) // out of range is infinite
	} else {
		text = integerLiteral.FindString(rest)
		i, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
		if err != nil {
			l.fail(l.pos, "the integer is outside of the range of 64 bits")
		}
		t.number = i
	}
	l.tokens = append(l.tokens, t)
	l.pos += len(text)
}

// string lexes a string literal: the escapes are those of Python, without \N.
func (l *lexer) string(quote byte) {
	start := l.pos
	var text strings.Builder
	for l.pos++; ; {
		if l.pos >= len(l.source) {
			l.fail(start, "the string has no closing quote")
		}
		c := l.source[l.pos]
		switch c {
		case quote:
			l.pos++
			l.emit(tokenString, text.String(), start)
			return
		case '\\':
			l.escape(&text)
		default:
			text.WriteByte(c)
			l.pos++
		}
	}
}

var simpleEscapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': `"`,
	'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

var hexEscapes = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// escape decodes the escape sequence at the current position.
func (l *lexer) escape(text *strings.Builder) {
	start := l.pos
	if start+1 >= len(l.source) {
		l.pos++ // the caller reports that the string has no end
		return
	}
	c := l.source[start+1]
	l.pos += 2
	if simple, ok := simpleEscapes[c]; ok {
		text.WriteString(simple)
		return
	}
	base, digits := 16, hexEscapes[c]
	switch {
	case digits > 0:
		if l.pos+digits > len(l.source) {
			l.fail(start, "the escape \\%c needs %d hexadecimal digits", c, digits)
		}
	case c >= '0' && c <= '7':
		base = 8
		l.pos--
		for digits < 3 && l.pos+digits < len(l.source) && l.source[l.pos+digits] >= '0' && l.source[l.pos+digits] <= '7' {
			digits++
		}
	case c == 'N':
		l.fail(start, "the escape \\N is not supported; use \\u")
	default: // not an escape
		text.WriteByte('\\')
		l.pos--
		return
	}
	code, err := strconv.ParseUint(l.source[l.pos:l.pos+digits], base, 32)
	switch {
	case err != nil:
		l.fail(start, "the escape \\%c needs %d hexadecimal digits", c, digits)
	case code > utf8.MaxRune || !utf8.ValidRune(rune(code)):
		l.fail(start, "the escape \\%c is not a Unicode character", c)
	}
	text.WriteRune(rune(code))
	l.pos += digits
}
