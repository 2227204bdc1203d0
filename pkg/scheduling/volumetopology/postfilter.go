// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PostFilter ends the attempt where evicting pods would be in vain, before
// DefaultPreemption runs. It evicts nothing itself.
//
// While volumes that were freed for the pod are on their way, it returns no result,
// which keeps the nomination and with it the CPU and memory of the victims. Any other
// way loses it: without candidates DefaultPreemption clears the nomination, with
// candidates it evicts again.
//
// A pod that PreFilter refused is not helped by evictions. Plugins whose PreFilter
// did not run then lack their state, and their errors would end the pod's event.
func (p *Plugin) PostFilter(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s, err := stateOf(cycle)
	switch {
	case err != nil: // another plugin's PreFilter refused the pod before ours ran
		return nil, fwk.NewStatus(fwk.Unschedulable)
	case s.awaiting && !ruledOut(statuses, pod.Status.NominatedNodeName):
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("preemption: waiting for the storage of evicted pods to be available again on node %q", pod.Status.NominatedNodeName))
	case s.refused:
		cleared := &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}}
		return cleared, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// ruledOut reports whether another plugin rejects the node whatever pods leave it.
func ruledOut(statuses fwk.NodeToStatusReader, node string) bool {
	status := statuses.Get(node)
	return status.Code() == fwk.UnschedulableAndUnresolvable && status.Plugin() != "" && status.Plugin() != Name
}
