// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"stowage.dev/stowage/pkg/testing/builders"
)

// evicting represents the PostFilter plugins that run after ours. It nominates the pod to
// a node, or fails if its own PreFilter has not run.
type evicting struct {
	stateless bool
	ran       bool
}

func (*evicting) Name() string { return names.DefaultPreemption }

func (e *evicting) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	e.ran = true
	if e.stateless {
		return nil, fwk.AsStatus(fwk.ErrNotFound)
	}
	return framework.NewPostFilterResultWithNominatedNode("b"), fwk.NewStatus(fwk.Success)
}

// postFilter runs the testbed's plugin and another one after it within the real
// framework.
func (c *cycle) postFilter(next *evicting, statuses *framework.NodeToStatus) (*fwk.PostFilterResult, *fwk.Status) {
	c.t.Helper()
	metrics.Register()
	only := func(names ...string) (set schedulerconfig.PluginSet) {
		for _, name := range names {
			set.Enabled = append(set.Enabled, schedulerconfig.Plugin{Name: name})
		}
		return set
	}
	f, err := frameworkruntime.NewFramework(c.t.Context(), frameworkruntime.Registry{
		Name:               func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return c.Plugin, nil },
		next.Name():        func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return next, nil },
		names.PrioritySort: queuesort.New,
		names.DefaultBinder: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return &defaultbinder.DefaultBinder{}, nil
		},
	}, &schedulerconfig.KubeSchedulerProfile{Plugins: &schedulerconfig.Plugins{
		QueueSort: only(names.PrioritySort), Bind: only(names.DefaultBinder), PostFilter: only(Name, next.Name()),
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	return f.RunPostFilterPlugins(c.t.Context(), c.state, c.pod, statuses)
}

// TestPostFilterAfterPreFilter: the event of a pod that PreFilter rejected has only that
// reason, although later plugins miss their state, and a nomination is cleared.
func TestPostFilterAfterPreFilter(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
	}{
		"a claim that does not exist": {pod: pod("p", "none")},
		"a volume that does not exist": {
			objects: []runtime.Object{claim("c", "1Gi").Bound("none").Obj()}, pod: pod("p", "c"),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, localClass().Obj(), node("a").Obj())
			w.put(test.objects...)
			c := &cycle{testbed: w, state: framework.NewCycleState(), pod: test.pod}
			_, rejected := w.PreFilter(t.Context(), c.state, c.pod, nil)
			if rejected.Code() != fwk.UnschedulableAndUnresolvable {
				t.Fatalf("PreFilter: %v", rejected)
			}
			next := &evicting{stateless: true}
			result, status := c.postFilter(next, framework.NewNodeToStatus(map[string]*fwk.Status{}, rejected))
			if status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != "" || next.ran {
				t.Errorf("status %v %q, next plugin ran: %t; want UnschedulableAndUnresolvable without a message", status.Code(), status.Message(), next.ran)
			}
			if result == nil || result.Mode() != fwk.ModeOverride || result.NominatedNodeName != "" {
				t.Errorf("result %+v, want the nomination cleared", result)
			}
		})
	}
}

// TestPostFilterRest: pods that are rejected for other reasons are left to the later
// plugins.
func TestPostFilterRest(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), claim("c", "1Gi").Obj(), volume("v", "a", "1Gi").Obj())
	for name, c := range map[string]*cycle{
		"no claims":                           w.begin(builders.MakePod("plain").UID("plain").Obj()),
		"claims":                              w.begin(pod("p", "c")),
		"another plugin's PreFilter rejected": {testbed: w, state: framework.NewCycleState(), pod: pod("p", "c")},
	} {
		next := &evicting{}
		_, status := c.postFilter(next, framework.NewDefaultNodeToStatus())
		if !status.IsSuccess() || !next.ran {
			t.Errorf("%s: status %v, next plugin ran: %t", name, status, next.ran)
		}
	}
}
