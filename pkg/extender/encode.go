// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
)

// appendJSON writes the verdict as an extenderv1.ExtenderFilterResult. The nodes
// are in the form in which they came, and never null, which would say nothing.
// Thousands of nodes may be refused, and encoding/json takes several times as long
// for maps of them as asking the engine does.
func (v *verdict) appendJSON(dst []byte) ([]byte, error) {
	var err error
	dst = append(dst, `{"Nodes":`...)
	if v.of.full {
		list := v1.NodeList{Items: make([]v1.Node, 0, len(v.accepted))}
		for _, i := range v.accepted {
			list.Items = append(list.Items, v.of.nodes[i])
		}
		text, err := json.Marshal(&list)
		if err != nil {
			return nil, err
		}
		dst = append(dst, text...)
		dst = append(dst, `,"NodeNames":null`...)
	} else {
		dst = append(dst, `null,"NodeNames":[`...)
		for n, i := range v.accepted {
			dst = separate(dst, n)
			if dst, err = appendString(dst, v.of.names[i]); err != nil {
				return nil, err
			}
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"FailedNodes":`...)
	if dst, err = appendRefusals(dst, v.failed); err != nil {
		return nil, err
	}
	dst = append(dst, `,"FailedAndUnresolvableNodes":`...)
	if dst, err = appendRefusals(dst, v.hopeless); err != nil {
		return nil, err
	}
	dst = append(dst, `,"Error":`...)
	if dst, err = appendString(dst, v.err); err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

func appendRefusals(dst []byte, list []refusal) ([]byte, error) {
	var err error
	dst = append(dst, '{')
	for n, r := range list {
		dst = separate(dst, n)
		if dst, err = appendString(dst, r.node); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = appendString(dst, r.why); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func separate(dst []byte, n int) []byte {
	if n == 0 {
		return dst
	}
	return append(dst, ',')
}

// appendString quotes a string. Names of nodes and our own reasons are plain.
func appendString(dst []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, err := json.Marshal(s)
			return append(dst, text...), err
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), nil
}
