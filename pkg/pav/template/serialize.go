// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// jsonWriter writes a value as jinja2.utils.htmlsafe_json_dumps does: sorted keys, ASCII only, and
// without characters that are special in HTML.
type jsonWriter struct {
	*evaluator
	out strings.Builder
	// indent is the indentation of a level; lines is set if values are on lines of their own.
	indent string
	lines  bool
}

func (c *call) toJSON() any {
	w := &jsonWriter{evaluator: c.evaluator}
	switch indent := c.argument("indent", nil).(type) {
	case nil:
	case string:
		w.indent, w.lines = indent, true
	case int64:
		w.indent, w.lines = c.spaces(indent), true
	default:
		c.need(indent)
		c.fail("the argument indent must be an integer or a string, not %s", kind(indent))
	}
	w.value(c.value, "\n")
	return w.out.String()
}

// write writes text that is part of the result.
func (w *jsonWriter) write(text string) {
	w.produce(len(text))
	w.read(len(text))
	w.out.WriteString(text)
}

// value writes a value; newline is a newline and the current indentation.
func (w *jsonWriter) value(value any, newline string) {
	switch v := value.(type) {
	case nil:
		w.write("null")
	case bool:
		w.write(strconv.FormatBool(v))
	case int64:
		w.write(formatInt(v))
	case float64:
		w.write(jsonFloat(v))
	case string:
		w.string(v)
	case []any:
		w.collection("[]", len(v), newline, func(i int, inner string) { w.value(v[i], inner) })
	case map[string]any:
		keys := w.keys(v)
		w.collection("{}", len(keys), newline, func(i int, inner string) {
			w.string(keys[i])
			w.write(": ")
			w.value(v[keys[i]], inner)
		})
	default:
		w.need(value)
		w.fail("%s cannot be written as JSON", kind(value))
	}
}

// collection writes n elements between brackets.
func (w *jsonWriter) collection(brackets string, n int, newline string, element func(i int, inner string)) {
	w.write(brackets[:1])
	w.produce(len(newline) + len(w.indent))
	inner := newline + w.indent
	w.deeper(func() {
		for i := range n {
			switch {
			case i > 0 && !w.lines:
				w.write(", ")
			case i > 0:
				w.write(",")
			}
			if w.lines {
				w.write(inner)
			}
			element(i, inner)
		}
	})
	if w.lines && n > 0 {
		w.write(newline)
	}
	w.write(brackets[1:])
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

var jsonEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`,
	'<': `\u003c`, '>': `\u003e`, '&': `\u0026`, '\'': `\u0027`,
}

func (w *jsonWriter) string(text string) {
	w.read(4 * len(text))
	var quoted strings.Builder
	for _, r := range text {
		switch escaped, ok := jsonEscapes[r]; {
		case ok:
			quoted.WriteString(escaped)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&quoted, `\u%04x\u%04x`, high, low)
		case r < ' ' || r > '~':
			fmt.Fprintf(&quoted, `\u%04x`, r)
		default:
			quoted.WriteRune(r)
		}
	}
	w.write(`"` + quoted.String() + `"`)
}

var bashUnsafe = regexp.MustCompile(`[^A-Za-z0-9_@%+=:,./-]`)

// toBash quotes a string or number as one word of Bash without newlines: those are $'\n' (seed,
// "Jinja templating").
func (c *call) toBash() any {
	text := c.text(c.value)
	if text == "" {
		return "''"
	}
	c.read(8 * len(text))
	c.produce(len(text))
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if bashUnsafe.MatchString(line) {
			c.produce(4 * strings.Count(line, "'"))
			lines[i] = "'" + strings.ReplaceAll(line, "'", `'"'"'`) + "'"
		}
	}
	c.produce(len(lines) * (elementBytes + 5))
	return strings.Join(lines, `$'\n'`)
}
