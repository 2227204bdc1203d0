// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"stowage.dev/stowage/pkg/apis/extender"
)

// readByHand are calls as kube-scheduler writes them, and others that are the same.
var readByHand = map[string]string{
	"no names":        `{"Pod":null,"Nodes":null,"NodeNames":[]}`,
	"names":           `{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","node-1.example.com"]}`,
	"white space":     " {\t\"NodeNames\" :\n[ \"a\" , \"b\" ] , \"Pod\" : { } }\r\n",
	"whole nodes":     `{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"}}]},"NodeNames":null}`,
	"nothing":         `{}`,
	"braces in texts": `{"Pod":{"metadata":{"annotations":{"{":"}\"}\\"}}},"NodeNames":["{"]}`,
}

// readByOthers are those that are left to encoding/json: what is not plain, and what
// it refuses.
var readByOthers = map[string]string{
	"another case":              `{"pod":{},"nodenames":["a"]}`,
	"a field twice":             `{"NodeNames":["a"],"NodeNames":["b","c"]}`,
	"a field that is unknown":   `{"Pod":{},"Other":[1,{"NodeNames":["a"]}]}`,
	"an escape in a name":       `{"NodeNames":["\u0061","b\n"]}`,
	"a bracket in a name":       `{"NodeNames":["a]","b"]}`,
	"letters of other scripts":  `{"NodeNames":["é","` + "\xff" + `"]}`,
	"a number among names":      `{"NodeNames":["a",1]}`,
	"a comma too much":          `{"NodeNames":["a",]}`,
	"a comma that is missing":   `{"NodeNames":["a""b"]}`,
	"a name that does not end":  `{"NodeNames":["a`,
	"names that do not end":     `{"NodeNames":["a"`,
	"more than one object":      `{}{}`,
	"a pod that is a list":      `{"Pod":[]}`,
	"a pod that is a text":      `{"Pod":"}"}`,
	"a pod that does not end":   `{"Pod":{"a":"\`,
	"a pod that is malformed":   `{"Pod":{"metadata":{,}}}`,
	"nothing but a comma":       `{,}`,
	"no object":                 `[]`,
	"no text":                   ``,
	"a control sign in a name":  "{\"NodeNames\":[\"a\x01\"]}",
	"nothing, and more letters": `{"Pod":nullx}`,
}

// sameAsJSON compares with encoding/json.
func sameAsJSON(t *testing.T, text []byte) {
	t.Helper()
	var want, got extenderv1.ExtenderArgs
	wantErr, gotErr := json.Unmarshal(text, &want), decode(text, &got)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("%q: error %v, encoding/json has %v", text, gotErr, wantErr)
	}
	if wantErr == nil && !reflect.DeepEqual(want, got) {
		t.Errorf("%q (-encoding/json +decode):\n%s", text, cmp.Diff(want, got))
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for hand, texts := range map[bool]map[string]string{true: readByHand, false: readByOthers} {
		for name, text := range texts {
			t.Run(name, func(t *testing.T) {
				s := scanner{text: []byte(text)}
				if got := s.args(new(extenderv1.ExtenderArgs)); got != hand {
					t.Errorf("read by hand: %t, want %t", got, hand)
				}
				sameAsJSON(t, []byte(text))
			})
		}
	}
	// What kube-scheduler writes.
	for _, args := range []extenderv1.ExtenderArgs{
		{Pod: pod("p", "c"), NodeNames: names("a", "b")},
		{Pod: pod("p", "c"), Nodes: &v1.NodeList{Items: []v1.Node{*node("a")}}},
	} {
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if s := (scanner{text: text}); !s.args(new(extenderv1.ExtenderArgs)) {
			t.Errorf("left to encoding/json: %s", text)
		}
		sameAsJSON(t, text)
	}
}

// FuzzDecode: what is read by hand is what encoding/json reads.
func FuzzDecode(f *testing.F) {
	for _, texts := range []map[string]string{readByHand, readByOthers} {
		for _, text := range texts {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) { sameAsJSON(t, text) })
}

// FuzzRanking: nor does what is written by hand differ.
func FuzzRanking(f *testing.F) {
	f.Add("a", int64(0), "node-b", int64(10))
	f.Add("\"", int64(-1), "é<&", int64(1<<62))
	f.Fuzz(func(t *testing.T, a string, first int64, b string, second int64) {
		list := []extenderv1.HostPriority{{Host: a, Score: first}, {Host: b, Score: second}}
		text, err := (&ranking{list: &list}).appendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		var want, got extenderv1.HostPriorityList
		if err := json.Unmarshal(plain, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	})
}

// TestCallAllocatesLittle: a call costs the garbage collector nothing for each node.
func TestCallAllocatesLittle(t *testing.T) {
	const nodes, most = 400, 300
	objects, list := []runtime.Object{localClass(), claim("c", "1Gi").Obj(), claim("large", "5Gi").Obj()}, make([]string, nodes)
	for n := range nodes {
		list[n] = fmt.Sprintf("node-%d", n)
		objects = append(objects, node(list[n]), volume("v-"+list[n], list[n], "1Gi").Obj())
	}
	w := newWorld(t, extender.ModeFull, objects...)
	for _, verb := range []string{VerbFilter, VerbPrioritize} {
		for _, name := range []string{"c", "large"} {
			body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("p", name), NodeNames: &list})
			if err != nil {
				t.Fatal(err)
			}
			if got := testing.AllocsPerRun(20, func() { w.post(verb, body) }); got > most {
				t.Errorf("%s of a pod with claim %q: %.0f allocations for %d nodes, want at most %d", verb, name, got, nodes, most)
			}
		}
	}
}
