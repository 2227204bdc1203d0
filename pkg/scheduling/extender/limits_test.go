// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
)

// TestDecodeTakesLittleMemory: decodeNames takes no more memory for any body than for one of
// the same length that consists of names.
func TestDecodeTakesLittleMemory(t *testing.T) { // not parallel: it measures memory
	const size, most = 1 << 20, 14
	for name, text := range map[string]string{
		"commas":      `{"Pod":{},"Nodes":null,"NodeNames":["a"` + strings.Repeat(",", size) + `]}`,
		"empty names": `{"Pod":{},"Nodes":null,"NodeNames":[""` + strings.Repeat(`,""`, size/3) + `]}`,
	} {
		body := []byte(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		decodeNames(body, new(extenderv1.ExtenderArgs))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > most*size {
			t.Errorf("%s: %d bytes of memory for a body of %d", name, took, len(text))
		}
	}
}

// TestAnswersAreBounded: the API server accepts pods whose claims have names of any
// length, and a reason with such a name is repeated for each node.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, extender.ModeFull, localClass(), node("node-0"))
	machines := make([]string, 5000)
	for n := range machines {
		machines[n] = fmt.Sprintf("node-%d", n)
	}
	for name, tc := range map[string]struct {
		claim string
		nodes []string
		want  string // of the claim's name
		most  int    // bytes
	}{
		"a name of the maximum length": {strings.Repeat("x", 253), machines, strings.Repeat("x", 253), 2 << 20},
		"a long name":                  {strings.Repeat("x", 100_000), machines, strings.Repeat("x", 900), 6 << 20},
		"a long name of other scripts": {strings.Repeat("é", 50_000), machines, strings.Repeat("é", 400), 6 << 20},
		"more nodes than clusters have": {
			strings.Repeat("x", 1000), make([]string, 50_000), strings.Repeat("x", 20), 24 << 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("p", tc.claim), NodeNames: &tc.nodes})
			if err != nil {
				t.Fatal(err)
			}
			answer := w.post(VerbFilter, body)
			var got extenderv1.ExtenderFilterResult
			if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || answer.Code != http.StatusOK || got.Error != "" {
				t.Fatalf("status %d, error %v, %.200q", answer.Code, err, got.Error)
			}
			if length := answer.Body.Len(); length > tc.most {
				t.Errorf("an answer of %d bytes to a call of %d", length, len(body))
			}
			why, found := got.FailedAndUnresolvableNodes[tc.nodes[len(tc.nodes)-1]]
			if !found || !strings.Contains(why, tc.want) || !utf8.ValidString(why) || strings.ContainsRune(why, utf8.RuneError) {
				t.Errorf("a node is rejected with %q", why)
			}
		})
	}
}
