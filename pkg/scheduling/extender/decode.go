// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// decode reads JSON as encoding/json does. Calls with thousands of node names would
// take that longer than the engine takes to answer. kube-scheduler writes the names
// last, and they are plain: they are cut off, and encoding/json reads the rest. It
// reads the whole of anything else.
func decode(text []byte, into any) error {
	if args, ok := into.(*extenderv1.ExtenderArgs); ok && decodeNames(text, args) {
		return nil
	}
	return json.Unmarshal(text, into)
}

// What kube-scheduler writes before, between and after names.
var namesBegin, namesNext, namesEnd = []byte(`,"Nodes":null,"NodeNames":["`), []byte(`","`), []byte(`"]}`)

// decodeNames reports whether the text is a call with plain names of nodes, and
// reads it. The names are in a list of nameLists and share one string.
func decodeNames(text []byte, into *extenderv1.ExtenderArgs) bool {
	rest, ok := bytes.CutSuffix(text, namesEnd)
	begin := bytes.LastIndex(rest, namesBegin)
	if !ok || begin < 0 {
		return false
	}
	names := rest[begin+len(namesBegin):]
	quotes := 2 * bytes.Count(names, namesNext)
	for _, c := range names {
		if c == '"' {
			quotes--
		} else if !isPlain[c] {
			return false
		}
	}
	// Nothing but names and the end of one object follow: what is before them is the
	// beginning of that object, not an empty one, or is not JSON.
	object := bytes.TrimRight(rest[:begin], " \t\r\n")
	var args extenderv1.ExtenderArgs
	if quotes != 0 || bytes.HasSuffix(object, []byte{'{'}) || json.Unmarshal(append(slices.Clip(object), '}'), &args) != nil {
		return false
	}
	list := nameLists.get()
	*list = slices.AppendSeq(slices.Grow(*list, bytes.Count(names, namesNext)+1), strings.SplitSeq(string(names), string(namesNext)))
	args.Nodes, args.NodeNames = nil, list
	*into = args
	return true
}

// isPlain are the characters that stand for themselves in a string.
var isPlain = func() (plain [256]bool) {
	for c := ' '; c <= '~'; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// What is read by hand, so that a change of the protocol does not compile here.
var _ = extenderv1.ExtenderArgs(struct {
	Pod       *v1.Pod
	Nodes     *v1.NodeList
	NodeNames *[]string
}{})
