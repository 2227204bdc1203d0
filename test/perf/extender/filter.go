// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/bench"
	"stowage.dev/stowage/test/perf/extender/deploy"
	"stowage.dev/stowage/test/perf/extender/figures"
	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
)

const (
	nodes   = 5000
	perNode = 10
	// running is how many pods each node has.
	running = 5
	// warmUp calls come before those that count.
	warmUp = 50
	// collectEvery is between how many calls the caller's garbage is collected.
	collectEvery = 20
	qps          = 5000
)

// kind is one series of calls.
type kind struct {
	key, title string
	claims     int
	size       string
	fits       int  // nodes
	bind       bool // each pod before the call for the next
	ephemeral  bool // from then on, a running pod has an ephemeral claim
}

// kinds end with those that change objects.
var kinds = []kind{
	{key: "one", title: "1 claim", claims: 1, size: "50Gi", fits: nodes},
	{key: "two", title: "2 claims", claims: 2, size: "50Gi", fits: nodes},
	{key: "none", title: "1 claim that fits nowhere", claims: 1, size: "1Ti"},
	{key: "bound", title: "1 claim, each pod bound before the next call", claims: 1, size: "50Gi", fits: nodes, bind: true},
	{key: "ephemeral", title: "1 claim that fits nowhere, one ephemeral claim elsewhere", claims: 1, size: "1Ti", ephemeral: true},
}

const namespace, class = "bench", "local" // as bench.Prepare made them

// asker calls one extender.
type asker struct {
	*deploy.Extender
	nodes []string
	calls int
}

// filter measures the calls, each about a different pod.
func (r *runner) filter(ctx context.Context, c page.Circumstances) error {
	w := bench.Workload{Name: filter, Nodes: nodes, VolumesPerNode: perNode}
	measured := &figures.Filter{Circumstances: c, Nodes: nodes, Volumes: nodes * perNode}
	err := r.prepared(ctx, w, func(folder string) (err error) {
		cl, err := cluster.Start(ctx, cluster.Config{
			Binaries: r.binaries, EtcdData: folder, NoKwok: true,
			APIServer:         cluster.APIServerConfig{DisableAdmission: []string{"ServiceAccount"}},
			ControllerManager: cluster.ControllerManagerConfig{Disabled: true},
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cl.Stop()) }()
		parts.Progress("pods and claims")
		a := &asker{calls: r.Number("calls")}
		for n := range nodes {
			a.nodes = append(a.nodes, fmt.Sprintf("node-%d", n))
		}
		if err := runPods(ctx, cl, a.nodes); err != nil {
			return err
		}
		pods := map[string][]*v1.Pod{}
		for _, k := range kinds {
			if pods[k.key], err = makePods(ctx, cl, k, warmUp+r.Number("calls")); err != nil {
				return err
			}
		}
		parts.Progress("extender")
		if a.Extender, err = deploy.Start(ctx, deploy.Config{Cluster: cl, Binary: r.extender, Mode: "full", QPS: qps}); err != nil {
			return err
		}
		for _, k := range kinds {
			parts.Progress("%d calls: %s", r.Number("calls"), k.title)
			if k.ephemeral {
				if err := ownClaim(ctx, cl); err != nil {
					return err
				}
			}
			series, err := a.series(ctx, k, pods[k.key])
			if err != nil {
				return fmt.Errorf("%s: %w", k.title, err)
			}
			measured.Series = append(measured.Series, *series)
		}
		used, err := source.Used(a.Process)
		measured.Memory = used.Peak
		return err
	})
	if err == nil {
		r.file.Filter = measured
	}
	return err
}

// runPods makes the pods that are on the nodes.
func runPods(ctx context.Context, cl *cluster.Cluster, nodes []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for n, node := range nodes {
		group.Go(func() error {
			for i := range running {
				pod := builders.MakePod(fmt.Sprintf("running-%d-%d", n, i)).Namespace(namespace).Node(node).Obj()
				if _, err := cl.Client().CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// ownClaim makes a running pod with an ephemeral volume, and its claim.
func ownClaim(ctx context.Context, cl *cluster.Cluster) error {
	core, template := cl.Client().CoreV1(), builders.MakePVC("owner-scratch").Namespace(namespace).Class(class).Request("1Gi")
	pod := builders.MakePod("owner").Namespace(namespace).Node("node-0").Ephemeral("scratch", template.Obj()).Obj()
	owner, err := core.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = core.PersistentVolumeClaims(namespace).Create(ctx, template.OwnedBy(owner).Obj(), metav1.CreateOptions{})
	return err
}

// makePods makes pods and their claims.
func makePods(ctx context.Context, cl *cluster.Cluster, k kind, count int) ([]*v1.Pod, error) {
	core, pods := cl.Client().CoreV1(), make([]*v1.Pod, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for i := range pods {
		group.Go(func() (err error) {
			name := fmt.Sprintf("%s-%d", k.key, i)
			pod := builders.MakePod(name).Namespace(namespace).SchedulerName(v1.DefaultSchedulerName)
			for c := range k.claims {
				claim := builders.MakePVC(fmt.Sprintf("%s-%d", name, c)).Namespace(namespace).Class(class).Request(k.size).Obj()
				if _, err := core.PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
					return err
				}
				pod.PVC(claim.Name)
			}
			pods[i], err = core.Pods(namespace).Create(ctx, pod.Obj(), metav1.CreateOptions{})
			return err
		})
	}
	return pods, group.Wait()
}

// series calls once for each pod, one call after the other.
func (a *asker) series(ctx context.Context, k kind, pods []*v1.Pod) (*figures.Series, error) {
	s := &figures.Series{Name: k.title}
	// The caller's garbage is collected between calls: collectors of two processes on
	// few processors would be measured instead of the extender.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for i, pod := range pods {
		if i%collectEvery == 0 {
			runtime.GC()
		}
		call, whole, err := a.filter(ctx, pod, k.fits)
		if err != nil {
			return nil, err
		}
		if i >= warmUp {
			s.Millis, s.Whole = append(s.Millis, millis(call)), append(s.Whole, millis(whole))
		}
		if err := a.bindOrNot(ctx, k, pod, a.nodes[i%len(a.nodes)]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// filter requests a decision on all nodes. A call lasts from the first byte sent to the last one
// read; the whole includes the caller's encoding and decoding.
func (a *asker) filter(ctx context.Context, pod *v1.Pod, fits int) (call, whole time.Duration, err error) {
	begin := time.Now()
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &a.nodes})
	if err != nil {
		return 0, 0, err
	}
	sent := time.Now()
	answer, err := a.Call(ctx, "filter", body)
	if err != nil {
		return 0, 0, err
	}
	call = time.Since(sent)
	var result extenderv1.ExtenderFilterResult
	if err := json.Unmarshal(answer, &result); err != nil {
		return 0, 0, err
	}
	whole = time.Since(begin)
	if result.Error != "" {
		return 0, 0, errors.New(result.Error)
	}
	if result.NodeNames == nil || len(*result.NodeNames) != fits {
		return 0, 0, fmt.Errorf("the answer is not %d nodes: %.200s", fits, answer)
	}
	return call, whole, nil
}

// bindOrNot binds the pod, or makes a call to bind that is refused: the extender waits for
// one, and it must not change objects.
func (a *asker) bindOrNot(ctx context.Context, k kind, pod *v1.Pod, node string) error {
	if k.bind {
		return a.bind(ctx, pod, node)
	}
	if err := a.bind(ctx, pod, "nowhere"); err == nil {
		return errors.New("a pod was bound to a node that does not exist")
	}
	return nil
}

func (a *asker) bind(ctx context.Context, pod *v1.Pod, node string) error {
	body, err := json.Marshal(extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node})
	if err != nil {
		return err
	}
	answer, err := a.Call(ctx, "bind", body)
	if err != nil {
		return err
	}
	var result extenderv1.ExtenderBindingResult
	if err := json.Unmarshal(answer, &result); err != nil {
		return err
	}
	if result.Error != "" {
		return errors.New(result.Error)
	}
	return nil
}
