// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/randfill"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
)

func clockAtZero() *clocktesting.FakePassiveClock {
	return clocktesting.NewFakePassiveClock(time.Unix(0, 0))
}

func uid(i int) types.UID { return types.UID(strconv.Itoa(i)) }

var verbs = []string{VerbFilter, VerbPrioritize, VerbPreempt, VerbBind}

// checkStatus: a call is answered with one of these statuses; a panic would have another.
func checkStatus(t *testing.T, verb string, status int, body []byte) {
	t.Helper()
	switch status {
	case http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusGatewayTimeout:
		return
	}
	t.Errorf("%s: status %d: %s", verb, status, body)
}

// FuzzBytes: no input terminates the process or leaves a reservation.
func FuzzBytes(f *testing.F) {
	w := newTestbed(f, extender.ModeFull, localClass(), node("a"), volume("v", "a", "1Gi").Obj(), claim("c", "1Gi").Obj())
	for i, args := range []any{
		extenderv1.ExtenderArgs{Pod: pod("p", "c"), NodeNames: names("a")},
		extenderv1.ExtenderArgs{Pod: pod("p", "c"), Nodes: &v1.NodeList{Items: []v1.Node{*node("a")}}},
		extenderv1.ExtenderPreemptionArgs{Pod: pod("p", "c"), NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"a": nil}},
		bindArgs(pod("p"), "a"),
	} {
		data, err := json.Marshal(args)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data)
	}
	f.Fuzz(func(t *testing.T, i uint8, body []byte) {
		verb := verbs[int(i)%len(verbs)]
		answer := w.post(verb, body)
		checkStatus(t, verb, answer.Code, answer.Body.Bytes())
		w.wantIdle(t)
	})
}

// FuzzRequests: no valid request, of arbitrary or existing pods and nodes, terminates the
// process or leaves a reservation.
func FuzzRequests(f *testing.F) {
	w := newTestbed(f, extender.ModeFull, localClass(), csiClass(), csiDriver(), node("a"), node("b"), capacity("a", "10Gi"),
		volume("v", "a", "1Gi").Obj(), claim("c", "1Gi").Obj(), claim("made", "1Gi").Class("csi").Obj(), pod("p", "c", "made"))
	advisory := newTestbed(f, extender.ModeAdvisory, csiClass(), csiDriver(), node("a"), capacity("a", "10Gi"), claim("made", "1Gi").Class("csi").Obj())
	for seed := range int64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		fill := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 4).MaxDepth(12).Funcs(
			func(s *types.UID, c randfill.Continue) { *s = types.UID("pod-" + pick(c.Intn(3), "p", "q", "")) },
			func(s *string, c randfill.Continue) {
				*s = pick(c.Intn(8), "a", "b", "c", "p", "made", "default", "", "é\x00")
			},
		)
		for _, verb := range verbs {
			var args any
			switch verb {
			case VerbPreempt:
				preempt := &extenderv1.ExtenderPreemptionArgs{}
				fill.Fill(preempt)
				args = preempt
			case VerbBind:
				bind := &extenderv1.ExtenderBindingArgs{}
				fill.Fill(bind)
				args = bind
			default:
				filter := &extenderv1.ExtenderArgs{}
				fill.Fill(filter)
				if seed%2 == 0 {
					filter.Pod = pod("p", "c", "made")
				}
				args = filter
			}
			body, err := json.Marshal(args)
			if err != nil {
				continue // an invalid quantity
			}
			for _, of := range []*testbed{w, advisory} {
				if of == advisory && (verb == VerbPreempt || verb == VerbBind) {
					continue
				}
				answer := of.post(verb, body)
				checkStatus(t, verb, answer.Code, answer.Body.Bytes())
				of.wantIdle(t)
			}
		}
	})
}

func pick(i int, from ...string) string { return from[i%len(from)] }

// FuzzEncode: the encoding equals that of encoding/json, whatever the names of nodes.
func FuzzEncode(f *testing.F) {
	f.Add("a", "b", "why", "")
	f.Add("\"\\\n", "é", "<&>\u2028", "\x7f\xff")
	f.Fuzz(func(t *testing.T, accepted, refused, why, problem string) {
		v := newVerdict(candidates{names: []string{accepted}})
		v.accept(0)
		v.err = problem
		v.reject(refused, why, true)
		v.reject(accepted, why, false)
		text, err := v.appendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(extenderv1.ExtenderFilterResult{
			NodeNames: names(accepted), Error: problem,
			FailedNodes: extenderv1.FailedNodesMap{refused: why}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{accepted: why},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got, read extenderv1.ExtenderFilterResult
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if err := json.Unmarshal(want, &read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(read, got); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	})
}
