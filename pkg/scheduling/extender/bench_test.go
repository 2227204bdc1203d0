// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
)

// BenchmarkFilter evaluates 5,000 node names with ten volumes each, JSON included, the
// network excluded. Of the two pods, one fits all nodes and one none.
func BenchmarkFilter(b *testing.B) {
	const nodes, perNode = 5000, 10
	pods := map[string]*v1.Pod{"fits": pod("p", "fits"), "large": pod("q", "large")}
	objects := []runtime.Object{localClass(), claim("fits", "1Gi").Obj(), claim("large", "5Gi").Obj(), pods["fits"], pods["large"]}
	list := make([]string, nodes)
	for n := range nodes {
		list[n] = fmt.Sprintf("node-%d", n)
		objects = append(objects, node(list[n]))
		for v := range perNode {
			objects = append(objects, volume(fmt.Sprintf("volume-%d-%d", n, v), list[n], "1Gi").Obj())
		}
	}
	w := newTestbed(b, extender.ModeFull, objects...)
	w.eventually("all volumes to be indexed", func() bool { return w.cache.Size().Volumes == nodes*perNode })
	for _, name := range []string{"fits", "large"} {
		b.Run(name, func(b *testing.B) {
			body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pods[name], NodeNames: &list})
			if err != nil {
				b.Fatal(err)
			}
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				w.gate.change(func() { w.gate.observations++ }) // otherwise the repeated query would wait for a change
				begin := time.Now()
				answer := httptest.NewRecorder()
				w.handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/filter", bytes.NewReader(body)))
				took = append(took, time.Since(begin))
				if answer.Code != http.StatusOK {
					b.Fatal(answer.Body)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkCodec decodes a call with 5,000 names and encodes its answers, by the extender
// and by encoding/json.
func BenchmarkCodec(b *testing.B) {
	const nodes, why = 5000, "node(s) didn't find available persistent volumes to bind"
	list := make([]string, nodes)
	refused, accepted := newVerdict(candidates{names: list}), newVerdict(candidates{names: list})
	failed := extenderv1.FailedNodesMap{}
	for n := range nodes {
		list[n] = fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", n/256, n%256)
		failed[list[n]] = why
		refused.reject(list[n], why, false)
		accepted.accept(n)
	}
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("p", "c"), NodeNames: &list})
	if err != nil {
		b.Fatal(err)
	}
	var buffer bytes.Buffer
	writes := func(result any) func() error {
		return func() error { buffer.Reset(); return encode(&buffer, result) }
	}
	for name, f := range map[string]func() error{
		"decode/ours": func() error {
			var args extenderv1.ExtenderArgs
			defer func() { nameLists.put(args.NodeNames) }()
			return decode(body, &args)
		},
		"decode/json":            func() error { return json.Unmarshal(body, new(extenderv1.ExtenderArgs)) },
		"encode rejections/ours": writes(refused),
		"encode rejections/json": writes(extenderv1.ExtenderFilterResult{NodeNames: &[]string{}, FailedAndUnresolvableNodes: failed}),
		"encode names/ours":      writes(accepted),
		"encode names/json":      writes(extenderv1.ExtenderFilterResult{NodeNames: &list}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
