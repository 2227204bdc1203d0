// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textFilter returns a filter or method that changes the case of a text.
func textFilter(change func(string) string) routine {
	return routineOf("", func(c *call) any {
		text := c.text(c.value)
		c.read(8 * len(text))
		return c.newText(change(text))
	})
}

func capitalize(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return text
	}
	return string(unicode.ToTitle(first)) + strings.ToLower(text[size:])
}

var wordBeginnings = regexp.MustCompile(`[^-\s\pZ({\[<]+`)

// title makes the first letter of each word a capital.
func title(text string) string {
	return wordBeginnings.ReplaceAllStringFunc(text, func(word string) string {
		_, size := utf8.DecodeRuneInString(word)
		return strings.ToUpper(word[:size]) + strings.ToLower(word[size:])
	})
}

// trim strips the characters of the argument chars, by default spaces, with one of strings'
// TrimFunc functions.
func (c *call) trim(text string, trim func(string, func(rune) bool) string) any {
	c.read(len(text))
	if c.isNone("chars") {
		return c.newText(trim(text, isSpace))
	}
	chars := c.stringArgument("chars", "")
	return c.newText(trim(text, func(r rune) bool {
		c.read(len(chars))
		return strings.ContainsRune(chars, r)
	}))
}

func (c *call) replaceFilter() any {
	return c.replace(c.text(c.value), c.text(c.argument("old", nil)), c.text(c.argument("new", nil)))
}

// replace replaces the first count occurrences of a text, or all.
func (c *call) replace(text, old, replacement string) any {
	count := -1
	if !c.isNone("count") {
		count = int(c.integerArgument("count", -1))
	}
	c.read(len(text) + len(old))
	found := strings.Count(text, old)
	if count >= 0 {
		found = min(found, count)
	}
	if grown := len(replacement) - len(old); grown > 0 && found > 0 {
		c.produce(grown * c.repetitions(int64(found), grown))
	}
	return c.newText(strings.Replace(text, old, replacement, count))
}

func (c *call) formatFilter() any {
	if len(c.named) > 0 {
		c.fail("format: arguments have no names")
	}
	return c.format(c.text(c.value), c.rest)
}

func (c *call) indent() any {
	text := c.requireString(c.value, "what is indented")
	width, ok := c.argument("width", int64(4)).(string)
	if !ok {
		width = c.spaces(c.integerArgument("width", 4))
	}
	lines := c.splitLines(text+"\n", false)
	c.produceList(len(lines))
	var indented strings.Builder
	for i, line := range lines {
		text := line.(string)
		if i > 0 {
			text = "\n" + text
		}
		if first := i == 0; first && c.truthArgument("first") || !first && (line != "" || c.truthArgument("blank")) {
			text = strings.TrimSuffix(text, line.(string)) + width + line.(string)
		}
		c.produce(len(text))
		c.read(len(text))
		indented.WriteString(text)
	}
	return indented.String()
}

// spaces returns a text of n spaces.
func (e *evaluator) spaces(n int64) string {
	return e.binary("*", " ", n).(string)
}

// splitLines returns Python's text.splitlines(keepends).
func (e *evaluator) splitLines(text string, keepEnds bool) []any {
	e.read(4 * len(text))
	var lines []any
	for text != "" {
		end := strings.IndexFunc(text, isLineEnd)
		if end < 0 {
			end = len(text)
		}
		_, size := utf8.DecodeRuneInString(text[end:])
		if strings.HasPrefix(text[end:], "\r\n") {
			size = 2
		}
		line := text[:end]
		if keepEnds {
			line = text[:end+size]
		}
		e.produceList(1)
		lines = append(lines, line)
		text = text[end+size:]
	}
	return lines
}

func isLineEnd(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

func (c *call) join() any {
	elements := c.elements(c.value)
	if a := c.attributeArgument(); a != nil {
		elements = c.mapAll(elements, a)
	}
	return c.joinAll(elements, c.text(c.argument("d", "")))
}

// joinAll returns the texts of elements with a separator between them.
func (c *call) joinAll(elements []any, separator string) any {
	var joined strings.Builder
	for i, element := range elements {
		text := c.text(element)
		if i > 0 {
			text = separator + text
		}
		c.produce(len(text))
		c.read(len(text))
		joined.WriteString(text)
	}
	return joined.String()
}
