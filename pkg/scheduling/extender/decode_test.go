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

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
)

// texts are calls as kube-scheduler writes them, calls with equal meaning, and texts that
// encoding/json rejects.
var texts = map[string]string{
	"names":                             `{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","node-1.example.com"]}`,
	"no names":                          `{"Pod":null,"Nodes":null,"NodeNames":[]}`,
	"names that are empty":              `{"Pod":null,"Nodes":null,"NodeNames":["","a",""]}`,
	"names of commas":                   `{"Pod":null,"Nodes":null,"NodeNames":[",",",,","a"]}`,
	"white space":                       " {\t\"NodeNames\" :\n[ \"a\" , \"b\" ] , \"Pod\" : { } }\r\n",
	"white space among names":           `{"Pod":{},"Nodes":null,"NodeNames":["a" ,"b"]}`,
	"whole nodes":                       `{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"}}]},"NodeNames":null}`,
	"nothing":                           `{}`,
	"texts that look like the call":     `{"Pod":{"metadata":{"annotations":{"a":",\"Nodes\":null,\"NodeNames\":[\""}}},"Nodes":null,"NodeNames":["{"]}`,
	"names within the pod":              `{"Pod":{"x":{},"Nodes":null,"NodeNames":["a"]}}`,
	"names within the pod and after it": `{"Pod":{"x":{},"Nodes":null,"NodeNames":["a"]},"Nodes":null,"NodeNames":["b"]}`,
	"names within a pod that ends":      `{"Pod":{"x":{},"Nodes":null,"NodeNames":["a"]}`,
	"another case":                      `{"pod":{},"nodenames":["a"],"Nodes":null,"NodeNames":["b"]}`,
	"a field twice":                     `{"NodeNames":["a"],"Nodes":{},"Nodes":null,"NodeNames":["b","c"]}`,
	"a field that is unknown":           `{"Pod":{},"Other":[1,{"NodeNames":["a"]}],"Nodes":null,"NodeNames":["b"]}`,
	"an escape in a name":               `{"Pod":{},"Nodes":null,"NodeNames":["\u0061","b\n"]}`,
	"brackets in a name":                `{"Pod":{},"Nodes":null,"NodeNames":["a]","b\"]}"]}`,
	"letters of other scripts":          `{"Pod":{},"Nodes":null,"NodeNames":["é","` + "\xff" + `"]}`,
	"a number among names":              `{"Pod":{},"Nodes":null,"NodeNames":["a",1,"b"]}`,
	"a surplus comma":                   `{"Pod":{},"Nodes":null,"NodeNames":["a",]}`,
	"a comma that is missing":           `{"Pod":{},"Nodes":null,"NodeNames":["a""b"]}`,
	"a comma within quotes":             `{"Pod":{},"Nodes":null,"NodeNames":["a"",""b"]}`,
	"a name that does not end":          `{"Pod":{},"Nodes":null,"NodeNames":["a`,
	"names that do not end":             `{"Pod":{},"Nodes":null,"NodeNames":["a"`,
	"more than one object":              `{}{"Pod":{},"Nodes":null,"NodeNames":["a"]}`,
	"no object before":                  `,"Nodes":null,"NodeNames":["a"]}`,
	"an array before":                   `[1,"Nodes":null,"NodeNames":["a"]}`,
	"a pod that is a list":              `{"Pod":[],"Nodes":null,"NodeNames":["a"]}`,
	"a pod that does not end":           `{"Pod":{"a":"\`,
	"a pod that is malformed":           `{"Pod":{"metadata":{,}},"Nodes":null,"NodeNames":["a"]}`,
	"nothing but a comma":               `{,}`,
	"nothing before the comma":          `{,"Nodes":null,"NodeNames":["a"]}`,
	"no text":                           ``,
	"a control character in a name":     "{\"Pod\":{},\"Nodes\":null,\"NodeNames\":[\"a\x01\"]}",
}

// sameAsJSON compares with encoding/json.
func sameAsJSON(t *testing.T, text []byte) {
	t.Helper()
	var want, got extenderv1.ExtenderArgs
	wantErr, gotErr := json.Unmarshal(text, &want), decode(text, &got)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("%q: error %v, encoding/json returns %v", text, gotErr, wantErr)
	}
	if wantErr == nil && !reflect.DeepEqual(want, got) {
		t.Errorf("%q (-encoding/json +decode):\n%s", text, cmp.Diff(want, got))
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for name, text := range texts {
		t.Run(name, func(t *testing.T) { sameAsJSON(t, []byte(text)) })
	}
	// What kube-scheduler writes.
	for fast, args := range map[bool]extenderv1.ExtenderArgs{
		true:  {Pod: pod("p", "c"), NodeNames: names("a", "b")},
		false: {Pod: pod("p", "c"), Nodes: &v1.NodeList{Items: []v1.Node{*node("a")}}},
	} {
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if got := decodeNames(text, new(extenderv1.ExtenderArgs)); got != fast {
			t.Errorf("names are split off: %t, want %t: %s", got, fast, text)
		}
		sameAsJSON(t, text)
	}
}

// FuzzDecode: decode equals encoding/json.
func FuzzDecode(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { sameAsJSON(t, text) })
}

// TestCallAllocatesLittle: the number of allocations of a call does not depend on the
// number of nodes.
func TestCallAllocatesLittle(t *testing.T) {
	const nodes, most = 400, 300
	objects, list := []runtime.Object{localClass(), claim("c", "1Gi").Obj(), claim("large", "5Gi").Obj()}, make([]string, nodes)
	for n := range nodes {
		list[n] = fmt.Sprintf("node-%d", n)
		objects = append(objects, node(list[n]), volume("v-"+list[n], list[n], "1Gi").Obj())
	}
	w := newTestbed(t, extender.ModeFull, objects...)
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
