// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin has what differs between minor versions of the scheduling framework.
package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// AssignedPod is the resource of events of pods that have a node.
const AssignedPod = fwk.Pod

// PreFlight is embedded by plugins whose PreBind may run in parallel with that of other plugins,
// which this version of the framework does not do. It returns Success if the plugin's PreBind has something to do for the pod, or else Skip, or an
// error.
type PreFlight func(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status

// PreBindPreFlight implements fwk.PreBindPlugin.
func (f PreFlight) PreBindPreFlight(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	return f(ctx, cycle, pod, nodeName)
}
