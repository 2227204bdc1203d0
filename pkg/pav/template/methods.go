// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// methods returns the methods of a value, which are those of Python that do not change it.
func methods(value any) map[string]routine {
	switch value.(type) {
	case string:
		return stringMethods
	case map[string]any:
		return dictMethods
	case []any:
		return listMethods
	case *loop:
		return loopMethods
	}
	return nil
}

var stringMethods = map[string]routine{
	"capitalize":   textFilter(capitalize),
	"lower":        textFilter(strings.ToLower),
	"upper":        textFilter(strings.ToUpper),
	"strip":        stripMethod(strings.TrimFunc),
	"lstrip":       stripMethod(strings.TrimLeftFunc),
	"rstrip":       stripMethod(strings.TrimRightFunc),
	"split":        routineOf("sep? maxsplit?", func(c *call) any { return c.split(splitLeft) }),
	"rsplit":       routineOf("sep? maxsplit?", func(c *call) any { return c.split(splitRight) }),
	"splitlines":   routineOf("keepends?", func(c *call) any { return c.splitLines(c.string(), c.truthArgument("keepends")) }),
	"partition":    routineOf("sep", func(c *call) any { return c.partition(strings.Index, false) }),
	"rpartition":   routineOf("sep", func(c *call) any { return c.partition(strings.LastIndex, true) }),
	"startswith":   routineOf("prefix", func(c *call) any { return c.hasAffix("prefix", strings.HasPrefix) }),
	"endswith":     routineOf("suffix", func(c *call) any { return c.hasAffix("suffix", strings.HasSuffix) }),
	"removeprefix": routineOf("prefix", func(c *call) any { return c.withoutAffix("prefix", strings.TrimPrefix) }),
	"removesuffix": routineOf("suffix", func(c *call) any { return c.withoutAffix("suffix", strings.TrimSuffix) }),
	"replace": routineOf("old new count?", func(c *call) any {
		return c.replace(c.string(), c.stringArgument("old", ""), c.stringArgument("new", ""))
	}),
	"join":  routineOf("iterable", (*call).joinMethod),
	"find":  routineOf("sub", func(c *call) any { return c.find(strings.Index) }),
	"rfind": routineOf("sub", func(c *call) any { return c.find(strings.LastIndex) }),
	"count": routineOf("sub", func(c *call) any {
		c.read(len(c.string()))
		return int64(strings.Count(c.string(), c.stringArgument("sub", "")))
	}),
	"zfill":   routineOf("width", (*call).zeroFill),
	"isdigit": routineOf("", func(c *call) any { return c.all(unicode.IsDigit) }),
	"isalpha": routineOf("", func(c *call) any { return c.all(unicode.IsLetter) }),
	"isalnum": routineOf("", func(c *call) any {
		return c.all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	}),
}

var dictMethods = map[string]routine{
	"get": routineOf("key default?", func(c *call) any {
		key, _ := c.argument("key", nil).(string)
		if value, ok := c.value.(map[string]any)[key]; ok {
			return value
		}
		return c.argument("default", nil)
	}),
	"items": routineOf("", func(c *call) any { return c.items(c.value.(map[string]any)) }),
	"keys":  routineOf("", func(c *call) any { return c.elements(c.value) }),
	"values": routineOf("", func(c *call) any {
		return c.mapAll(c.items(c.value.(map[string]any)), func(item any) any { return item.([]any)[1] })
	}),
}

var listMethods = map[string]routine{
	"count": routineOf("value", func(c *call) any {
		n := int64(0)
		for _, element := range c.value.([]any) {
			if c.equal(element, c.argument("value", nil)) {
				n++
			}
		}
		return n
	}),
	"index": routineOf("value", func(c *call) any {
		i := slices.IndexFunc(c.value.([]any), func(element any) bool { return c.equal(element, c.argument("value", nil)) })
		if i < 0 {
			c.fail("the value is not in the list")
		}
		return int64(i)
	}),
}

var loopMethods = map[string]routine{
	"cycle": routineOf("...", func(c *call) any {
		if len(c.rest) == 0 {
			c.fail("loop.cycle needs arguments")
		}
		return c.rest[c.value.(*loop).index%len(c.rest)]
	}),
	"changed": routineOf("...", func(c *call) any {
		l := c.value.(*loop)
		changed := l.changed == nil || !c.equal(l.changed, c.rest)
		l.changed = append([]any{}, c.rest...)
		return changed
	}),
}

// string returns the string that a method is called on.
func (c *call) string() string { return c.value.(string) }

func stripMethod(trim func(string, func(rune) bool) string) routine {
	return routineOf("chars?", func(c *call) any { return c.trim(c.string(), trim) })
}

// split splits at the argument sep, or at spaces, at most maxsplit times.
func (c *call) split(split func(text, sep string, n int) []string) any {
	text := c.string()
	c.read(4 * len(text))
	n := int(min(c.integerArgument("maxsplit", -1), int64(len(text))+1))
	var parts []string
	if c.isNone("sep") {
		c.produceList(len(strings.FieldsFunc(text, isSpace)))
		parts = split(text, "", n)
	} else {
		sep := c.stringArgument("sep", "")
		if sep == "" {
			c.fail("the argument sep must not be empty")
		}
		c.produceList(strings.Count(text, sep) + 1)
		parts = split(text, sep, n)
	}
	values := make([]any, len(parts))
	for i, p := range parts {
		values[i] = p
	}
	return values
}

// splitLeft splits at most n times, or always if n is negative. An empty sep means spaces.
func splitLeft(text, sep string, n int) []string {
	switch {
	case sep != "" && n < 0:
		return strings.Split(text, sep)
	case sep != "":
		return strings.SplitN(text, sep, n+1)
	case n < 0:
		return strings.FieldsFunc(text, isSpace)
	}
	var parts []string
	for text = strings.TrimLeftFunc(text, isSpace); text != "" && len(parts) < n; text = strings.TrimLeftFunc(text, isSpace) {
		end := strings.IndexFunc(text, isSpace)
		if end < 0 {
			end = len(text)
		}
		parts = append(parts, text[:end])
		text = text[end:]
	}
	if text != "" {
		parts = append(parts, text)
	}
	return parts
}

// splitRight is splitLeft from the end.
func splitRight(text, sep string, n int) []string {
	if n < 0 {
		return splitLeft(text, sep, n)
	}
	var parts []string
	if sep != "" {
		for at := strings.LastIndex(text, sep); at >= 0 && len(parts) < n; at = strings.LastIndex(text, sep) {
			parts = append(parts, text[at+len(sep):])
			text = text[:at]
		}
		parts = append(parts, text)
	} else {
		for text = strings.TrimRightFunc(text, isSpace); text != "" && len(parts) < n; text = strings.TrimRightFunc(text, isSpace) {
			rest := strings.TrimRightFunc(text, func(r rune) bool { return !isSpace(r) })
			parts = append(parts, text[len(rest):])
			text = rest
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	slices.Reverse(parts)
	return parts
}

// partition returns the text before and after the argument sep, and sep. If it is not found, the
// whole text is first, or last.
func (c *call) partition(index func(text, sep string) int, last bool) any {
	text, sep := c.string(), c.stringArgument("sep", "")
	if sep == "" {
		c.fail("the argument sep must not be empty")
	}
	c.read(len(text))
	c.produceList(3)
	at := index(text, sep)
	switch {
	case at >= 0:
		return []any{text[:at], sep, text[at+len(sep):]}
	case last:
		return []any{"", "", text}
	}
	return []any{text, "", ""}
}

// hasAffix reports whether the text has the affix of the argument, or one of them in a list.
func (c *call) hasAffix(argument string, has func(text, affix string) bool) any {
	affixes, ok := c.argument(argument, nil).([]any)
	if !ok {
		affixes = []any{c.stringArgument(argument, "")}
	}
	return slices.ContainsFunc(affixes, func(affix any) bool {
		text := c.requireString(affix, "the argument "+argument)
		c.read(len(text))
		return has(c.string(), text)
	})
}

func (c *call) withoutAffix(argument string, trim func(text, affix string) string) any {
	affix := c.stringArgument(argument, "")
	c.read(len(affix))
	return trim(c.string(), affix)
}

func (c *call) joinMethod() any {
	elements := c.elements(c.argument("iterable", nil))
	for _, element := range elements {
		c.requireString(element, "each element")
	}
	return c.joinAll(elements, c.string())
}

// find returns the position of the argument sub in characters, or -1.
func (c *call) find(index func(text, sub string) int) any {
	c.read(len(c.string()))
	at := index(c.string(), c.stringArgument("sub", ""))
	if at < 0 {
		return int64(-1)
	}
	return int64(utf8.RuneCountInString(c.string()[:at]))
}

func (c *call) zeroFill() any {
	text := c.string()
	zeros := c.binary("*", "0", c.binary("-", c.integerArgument("width", 0), c.length(text))).(string)
	sign := 0
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		sign = 1
	}
	return c.newText(text[:sign] + zeros + text[sign:])
}

// all reports whether the text has characters, all of a class.
func (c *call) all(class func(rune) bool) bool {
	c.read(8 * len(c.string()))
	return c.string() != "" && strings.IndexFunc(c.string(), func(r rune) bool { return !class(r) }) < 0
}
