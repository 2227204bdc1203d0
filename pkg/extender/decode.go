// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// decode reads JSON as encoding/json does. Of calls with thousands of names, which
// would take that longer than answering takes the engine, it reads by hand what
// kube-scheduler writes; anything else is left to encoding/json as a whole.
func decode(text []byte, into any) error {
	if args, ok := into.(*extenderv1.ExtenderArgs); ok {
		var quick extenderv1.ExtenderArgs
		if s := (scanner{text: text}); s.args(&quick) {
			*args = quick
			return nil
		}
	}
	return json.Unmarshal(text, into)
}

// scanner reads from the left. Its methods tell whether they found what they are
// called for; one that has not leaves it anywhere.
type scanner struct {
	text []byte
	at   int
}

// args reads the whole text.
func (s *scanner) args(into *extenderv1.ExtenderArgs) bool {
	var seen []string
	if !s.token('{') {
		return false
	}
	for first := true; !s.token('}'); first = false {
		if !first && !s.token(',') {
			return false
		}
		key, ok := s.plain()
		if !ok || !s.token(':') || slices.Contains(seen, string(key)) {
			return false
		}
		seen = append(seen, string(key))
		if !s.field(string(key), into) {
			return false
		}
	}
	s.space()
	return s.at == len(s.text)
}

// field reads a value; of fields that do not exist it knows nothing.
func (s *scanner) field(key string, into *extenderv1.ExtenderArgs) bool {
	var object any
	switch key {
	case "Pod":
		object = &into.Pod
	case "Nodes":
		object = &into.Nodes
	case "NodeNames":
		names, ok := s.names()
		into.NodeNames = names
		return ok
	default:
		return false
	}
	value, ok := s.value()
	return ok && json.Unmarshal(value, object) == nil
}

// names reads a list of plain strings, which share one piece of memory, or null. The
// list is one of nameLists.
func (s *scanner) names() (*[]string, bool) {
	s.space()
	if s.literal("null") {
		return nil, true
	}
	if !s.token('[') {
		return nil, false
	}
	begin := s.at
	end := bytes.IndexByte(s.text[begin:], ']') // or in a name, which then is not plain
	if end < 0 {
		return nil, false
	}
	memory := string(s.text[begin : begin+end])
	list := nameLists.get()
	most := (end + 1) / len(`"",`) // with anything else between commas, it is no list of names
	names := slices.Grow(*list, min(bytes.Count(s.text[begin:begin+end], []byte{','}), most)+1)
	for first := true; !s.token(']'); first = false {
		if !first && !s.token(',') {
			return nil, false
		}
		name, ok := s.plain()
		if from := s.at - 1 - len(name) - begin; ok && from+len(name) <= len(memory) {
			names = append(names, memory[from:from+len(name)])
			continue
		}
		return nil, false
	}
	*list = names
	return list, true
}

// plain reads a string of printable ASCII without escapes.
func (s *scanner) plain() ([]byte, bool) {
	if !s.token('"') {
		return nil, false
	}
	begin := s.at
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[begin : s.at-1], true
		case !isPlain[c]:
			return nil, false
		}
	}
	return nil, false
}

// value finds the end of an object, or null. What is inside is for others to read.
func (s *scanner) value() ([]byte, bool) {
	s.space()
	begin := s.at
	if s.literal("null") {
		return s.text[begin:s.at], true
	}
	depth, quoted := 0, false
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case quoted && c == '\\':
			s.at++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			depth--
		}
		if depth == 0 {
			return s.text[begin:s.at], c == '}'
		}
	}
	return nil, false
}

func (s *scanner) literal(word string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(word)) {
		return false
	}
	s.at += len(word)
	return true
}

// token reads a character, and the space before it.
func (s *scanner) token(c byte) bool {
	s.space()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// isPlain are the characters that stand for themselves in a string.
var isPlain = func() (plain [256]bool) {
	for c := ' '; c <= '~'; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// The types that are read by hand, so that a change of the protocol does not compile
// here.
var _ = extenderv1.ExtenderArgs(struct {
	Pod       *v1.Pod
	Nodes     *v1.NodeList
	NodeNames *[]string
}{})
