// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/source"
)

const (
	// runningPerNode is how many pods each node has.
	runningPerNode = 5
	// warmUpCalls come before those that count, but not more than these are.
	warmUpCalls = 50
	// collectEvery is between how many calls the caller's garbage is collected.
	collectEvery = 20
)

// FilterWorkload is the cluster of Filter.
func FilterWorkload() Workload {
	return Workload{Name: "filter", Title: "the extender's calls to filter", Nodes: 5000, VolumesPerNode: 10}
}

// filterCalls is one series of calls, each about a different pod.
type filterCalls struct {
	name      string
	pods      int // claims of each
	claims    claimKind
	bind      bool // each pod is bound before the call for the next
	ephemeral bool // from then on, a running pod has an ephemeral claim
}

// filterSeries end with those that change objects.
var filterSeries = []filterCalls{
	{name: "one claim", pods: 1},
	{name: "two claims", pods: 2},
	{name: "fits nowhere", pods: 1, claims: claimsTooLarge},
	{name: "one claim, bound before the next", pods: 1, bind: true},
	{name: "fits nowhere, ephemeral claim elsewhere", pods: 1, claims: claimsTooLarge, ephemeral: true},
}

// Filter measures the extender's calls to filter with the names of all nodes, on a cluster
// that it starts and ends: calls of each series, one after another.
func Filter(ctx context.Context, c Config, calls int) (measured figures.Set, err error) {
	c.Arm = ExtenderFull
	s, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.progress("pods and claims")
	if err := s.runPods(ctx); err != nil {
		return nil, err
	}
	warm := min(warmUpCalls, calls)
	pods := make([][]*v1.Pod, len(filterSeries))
	for i, series := range filterSeries {
		s.workload.ClaimsPerPod, s.workload.claims = series.pods, series.claims
		if pods[i], err = s.createPods(ctx, fmt.Sprintf("series-%d", i), warm+calls); err != nil {
			return nil, err
		}
	}
	if err := s.startExtender(ctx, c); err != nil {
		return nil, err
	}
	for i, series := range filterSeries {
		s.progress("%d calls: %s", calls, series.name)
		values, err := s.callFilter(ctx, series, pods[i], warm)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", series.name, err)
		}
		measured = append(measured, figures.Line("Filter/pod="+strings.ReplaceAll(series.name, " ", "_"), calls, values...))
	}
	used, err := source.Used(s.extender.Process)
	for _, line := range measured {
		line.Values = append(line.Values, figures.Value{Value: float64(used.Peak), Unit: "peak-B"})
	}
	return measured, err
}

// runPods makes the pods that are on the nodes.
func (s *setup) runPods(ctx context.Context) error {
	return await.Each(ctx, s.workload.Nodes*runningPerNode, func(ctx context.Context, i int) error {
		pod := builders.MakePod(fmt.Sprintf("running-%d", i)).Namespace(namespace).Node(nodeName(i / runningPerNode)).Obj()
		_, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// createPods makes pods with their claims.
func (s *setup) createPods(ctx context.Context, prefix string, count int) ([]*v1.Pod, error) {
	pods, err := s.makePods(ctx, prefix, count)
	if err != nil {
		return nil, err
	}
	return pods, await.Each(ctx, count, func(ctx context.Context, i int) (err error) {
		pods[i], err = s.client.CoreV1().Pods(namespace).Create(ctx, pods[i], metav1.CreateOptions{})
		return err
	})
}

// makeEphemeral makes a running pod with an ephemeral volume, and its claim.
func (s *setup) makeEphemeral(ctx context.Context) error {
	core, template := s.client.CoreV1(), builders.MakePVC("owner-scratch").Namespace(namespace).Class(class).Request("1Gi")
	pod := builders.MakePod("owner").Namespace(namespace).Node(nodeName(0)).Ephemeral("scratch", template.Obj()).Obj()
	owner, err := core.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = core.PersistentVolumeClaims(namespace).Create(ctx, template.OwnedBy(owner).Obj(), metav1.CreateOptions{})
	return err
}

// callFilter calls once for each pod, one call after the other.
func (s *setup) callFilter(ctx context.Context, series filterCalls, pods []*v1.Pod, warm int) ([]figures.Value, error) {
	if series.ephemeral {
		if err := s.makeEphemeral(ctx); err != nil {
			return nil, err
		}
	}
	var nodes []string
	for n := range s.workload.Nodes {
		nodes = append(nodes, nodeName(n))
	}
	fits := len(nodes)
	if series.claims == claimsTooLarge {
		fits = 0
	}
	var calls, wholes []float64
	// The caller's garbage is collected between calls: collectors of two processes on
	// few processors would be measured instead of the extender.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for i, pod := range pods {
		if i%collectEvery == 0 {
			runtime.GC()
		}
		call, whole, err := s.filter(ctx, pod, nodes, fits)
		if err != nil {
			return nil, err
		}
		if i >= warm {
			calls, wholes = append(calls, call.Seconds()), append(wholes, whole.Seconds())
		}
		if err := s.bindOrNot(ctx, series.bind, pod, nodes[i%len(nodes)]); err != nil {
			return nil, err
		}
	}
	return append(figures.Times(calls), figures.Value{Value: figures.Quantile(wholes, 0.5), Unit: "with-json-p50-sec"},
		figures.Value{Value: figures.Quantile(wholes, 0.99), Unit: "with-json-p99-sec"}), nil
}

// filter requests a decision on all nodes. The whole includes the caller's encoding and decoding.
func (s *setup) filter(ctx context.Context, pod *v1.Pod, nodes []string, fits int) (took, whole time.Duration, err error) {
	begin := time.Now()
	var result extenderv1.ExtenderFilterResult
	took, err = s.extender.call(ctx, "filter", extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes}, &result)
	whole = time.Since(begin)
	switch {
	case err != nil:
	case result.Error != "":
		err = errors.New(result.Error)
	case result.NodeNames == nil || len(*result.NodeNames) != fits:
		err = fmt.Errorf("the answer is not %d nodes: %.200v", fits, result)
	}
	return took, whole, err
}

// bindOrNot binds the pod, or makes a call to bind that is refused: the extender waits for
// one, and it must not change objects.
func (s *setup) bindOrNot(ctx context.Context, bind bool, pod *v1.Pod, node string) error {
	if !bind {
		node = "nowhere"
	}
	var result extenderv1.ExtenderBindingResult
	args := extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}
	_, err := s.extender.call(ctx, "bind", args, &result)
	switch {
	case err != nil:
		return err
	case bind && result.Error != "":
		return errors.New(result.Error)
	case !bind && result.Error == "":
		return errors.New("a pod was bound to a node that does not exist")
	}
	return nil
}
