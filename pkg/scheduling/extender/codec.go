// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"

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

// encode writes an answer as JSON. A verdict encodes itself: encoding/json, which sorts
// the reasons by node, takes 2.5 ms for 5,000 nodes instead of 0.2 ms (BenchmarkCodec).
func encode(buffer *bytes.Buffer, result any) error {
	switch result := result.(type) {
	case *verdict:
		text, err := result.appendJSON(buffer.AvailableBuffer())
		if err != nil {
			return err
		}
		_, err = buffer.Write(text)
		return err
	case *ranking:
		return json.NewEncoder(buffer).Encode(*result.list)
	}
	return json.NewEncoder(buffer).Encode(result)
}

// ranking is the answer to prioritize, in JSON an extenderv1.HostPriorityList.
type ranking struct {
	of   candidates
	list *[]extenderv1.HostPriority
}

// release returns memory to its pools, after the answer has been written.
func (r *ranking) release() {
	r.of.release()
	rankLists.put(r.list)
}

// appendJSON encodes the verdict as an extenderv1.ExtenderFilterResult. The nodes have
// the form of the request, and are never null, which would mean no answer.
func (v *verdict) appendJSON(dst []byte) ([]byte, error) {
	var err error
	dst = append(dst, `{"Nodes":`...)
	if v.of.full {
		list := v1.NodeList{Items: make([]v1.Node, 0, len(*v.accepted))}
		for _, i := range *v.accepted {
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
		for n, i := range *v.accepted {
			if dst, err = appendString(separate(dst, n), v.of.names[i]); err != nil {
				return nil, err
			}
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"FailedNodes":`...)
	if dst, err = appendRejections(dst, *v.failed); err != nil {
		return nil, err
	}
	dst = append(dst, `,"FailedAndUnresolvableNodes":`...)
	if dst, err = appendRejections(dst, *v.unresolvable); err != nil {
		return nil, err
	}
	dst = append(dst, `,"Error":`...)
	if dst, err = appendString(dst, v.err); err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

// appendRejections encodes reasons by node. There are few different reasons: one that
// equals the previous one is copied.
func appendRejections(dst []byte, list []rejection) ([]byte, error) {
	var err error
	begin, end := 0, 0 // of the last reason in dst
	dst = append(dst, '{')
	for n, r := range list {
		if dst, err = appendString(separate(dst, n), r.node); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if n > 0 && r.why == list[n-1].why {
			again := len(dst)
			dst = append(dst, dst[begin:end]...)
			begin, end = again, len(dst)
			continue
		}
		begin = len(dst)
		if dst, err = appendString(dst, r.why); err != nil {
			return nil, err
		}
		end = len(dst)
	}
	return append(dst, '}'), nil
}

func separate(dst []byte, n int) []byte {
	if n == 0 {
		return dst
	}
	return append(dst, ',')
}

// appendString quotes a string. Names of nodes and the reasons of this package need no escapes.
func appendString(dst []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if !isPlain[s[i]] {
			text, err := json.Marshal(s)
			return append(dst, text...), err
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), nil
}

// buffers are pooled memory for bodies and answers: with thousands of nodes these are
// hundreds of kilobytes a call, and garbage collection, which scans tens of thousands of
// volumes, dominates the latency of calls. A call that rejects 5,000 nodes allocates 0.4 MB
// with the lists below and 1.1 MB without (BenchmarkFilter).
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledBuffer is the largest buffer to keep: whole Node objects may take megabytes,
// and few configurations send them.
const maxPooledBuffer = 4 << 20

func getBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

// putBuffer returns a buffer, which must not be used afterwards.
func putBuffer(b *bytes.Buffer) {
	if b.Cap() > maxPooledBuffer {
		return
	}
	b.Reset()
	buffers.Put(b)
}

// lists are pooled lists with an entry for each node of a call.
type lists[T any] struct{ pool sync.Pool }

// maxPooledEntries is the longest list to keep: longer than clusters have nodes.
const maxPooledEntries = 1 << 17

// get returns an empty list. Put it back after use.
func (l *lists[T]) get() *[]T {
	if list, ok := l.pool.Get().(*[]T); ok {
		return list
	}
	return new([]T)
}

// put returns a list to the pool; nil is ignored.
func (l *lists[T]) put(list *[]T) {
	if list == nil || cap(*list) > maxPooledEntries {
		return
	}
	clear(*list)
	*list = (*list)[:0]
	l.pool.Put(list)
}

var (
	nameLists      lists[string]
	indexLists     lists[int]
	rejectionLists lists[rejection]
	rankLists      lists[extenderv1.HostPriority]
)
