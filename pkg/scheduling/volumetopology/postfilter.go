// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PostFilter ends the attempt if evicting pods cannot help, before DefaultPreemption
// runs. It evicts nothing itself.
//
// While volumes that were freed for the pod are becoming available, it returns no result,
// which keeps the nomination and with it the CPU and memory of the victims. Otherwise the
// nomination would be lost: without candidates DefaultPreemption clears it, with
// candidates it evicts again.
//
// Evictions do not help a pod that PreFilter rejected. Plugins whose PreFilter did not
// run then lack their state, and their errors would appear in the pod's event.
func (p *Plugin) PostFilter(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s, err := stateOf(cycle)
	switch {
	case err != nil: // another plugin's PreFilter rejected the pod before ours ran
		return nil, fwk.NewStatus(fwk.Unschedulable)
	case s.Awaiting && !ruledOut(statuses, pod.Status.NominatedNodeName):
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("preemption: waiting for the storage of evicted pods to be available again on node %q", pod.Status.NominatedNodeName))
	case s.rejected:
		cleared := &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}}
		return cleared, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// ruledOut reports whether another plugin rejects the node regardless of evictions.
func ruledOut(statuses fwk.NodeToStatusReader, node string) bool {
	status := statuses.Get(node)
	return status.Code() == fwk.UnschedulableAndUnresolvable && status.Plugin() != "" && status.Plugin() != Name
}
