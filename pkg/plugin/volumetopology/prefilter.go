// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/volume/claims"
	"stowage.dev/stowage/pkg/volume/match"
	"stowage.dev/stowage/pkg/volumecache"
)

// PreFilter compiles the pod's claims for the cycle and narrows the nodes
// where that pays.
func (p *Plugin) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Spec.NodeName != "" || !claims.Any(pod) {
		// Also a pod that runs and whose resize is deferred: its volumes have
		// their node (KEP-1287).
		cycle.Write(stateKey, &state{})
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if !p.cache.Ready(ctx.Done()) {
		return nil, fwk.AsStatus(fmt.Errorf("waiting for volumes to be indexed: %w", context.Cause(ctx)))
	}
	demand, refusal, err := p.cache.Demand(pod)
	switch {
	case err != nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	case refusal != nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, refusal.Error())
	}
	if err := p.forgetLostNodes(ctx, demand); err != nil {
		return nil, fwk.AsStatus(err)
	}
	cycle.Write(stateKey, &state{demand: demand, awaiting: p.cache.Awaits(pod)})
	nodes, reason := p.cache.Nodes(demand)
	switch {
	case reason.Code != match.Fits:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason.Code.String())
	case nodes == nil:
		return nil, nil
	}
	return &fwk.PreFilterResult{NodeNames: nodes}, nil
}

// PreFilterExtensions lets preemption ask what evicting a pod would free.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// forgetLostNodes looks at selected-node annotations that name a node which
// the informer does not have. Only when the API server does not have it either
// is the node gone for good and the choice void.
func (p *Plugin) forgetLostNodes(ctx context.Context, demand *volumecache.Demand) error {
	for node := range demand.Selected {
		if p.cache.NodeExists(node) {
			continue
		}
		_, err := p.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			demand.Forget(node)
		case err != nil:
			return fmt.Errorf("get node %q that a claim was to be provisioned on: %w", node, err)
		}
	}
	return nil
}
