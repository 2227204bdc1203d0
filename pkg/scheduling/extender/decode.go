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

// decode equals json.Unmarshal, which takes 2.4 times as long for 5,000 node names and
// longer than the evaluation (BenchmarkCodec). kube-scheduler writes the names last and
// unescaped: they are split off, and encoding/json decodes the rest. Everything else is
// decoded by encoding/json.
func decode(text []byte, into any) error {
	if args, ok := into.(*extenderv1.ExtenderArgs); ok && decodeNames(text, args) {
		return nil
	}
	return json.Unmarshal(text, into)
}

// What kube-scheduler writes before, between and after names.
var namesBegin, namesNext, namesEnd = []byte(`,"Nodes":null,"NodeNames":["`), []byte(`","`), []byte(`"]}`)

// decodeNames decodes a call with unescaped node names, and reports whether the text is such
// a call. The names are in a list of nameLists and share one string.
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
	// Only names and the end of one object follow: the text before them is the beginning
	// of that object and not empty, or the text is not JSON.
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

// isPlain are the characters that need no escape in a string.
var isPlain = func() (plain [256]bool) {
	for c := ' '; c <= '~'; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// A change of the protocol's fields fails to compile here: decodeNames depends on them.
var _ = extenderv1.ExtenderArgs(struct {
	Pod       *v1.Pod
	Nodes     *v1.NodeList
	NodeNames *[]string
}{})
