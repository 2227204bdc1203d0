// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
)

// clientQPS of the scheduler in all arms, except in workloads with
// kube-scheduler's defaults: high enough never to be the limit.
const clientQPS = 5000

const profileHead = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
`

// topologyProfile is that of manifests/scheduler/only.
const topologyProfile = `  plugins:
    multiPoint:
      enabled:
      - name: VolumeTopology
      disabled:
      - name: VolumeBinding
    preFilter:
      enabled:
      - name: VolumeTopology
    postFilter:
      enabled:
      - name: VolumeTopology
`

const pvControllerArgs = `  pluginConfig:
  - name: VolumeTopology
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: VolumeTopologyArgs
      bindingMode: PVController
`

// schedulerConfig is the KubeSchedulerConfiguration of an arm. qps 0 leaves the
// client's limits at their defaults.
func schedulerConfig(arm Arm, qps int) ([]byte, error) {
	config := profileHead
	switch arm {
	case Stock:
	case Direct:
		config += topologyProfile
	case PVController:
		config += topologyProfile + pvControllerArgs
	default:
		return nil, fmt.Errorf("arm %q has no scheduler", arm)
	}
	if qps > 0 {
		config += fmt.Sprintf("clientConnection: {qps: %d, burst: %d}\n", qps, qps)
	}
	return []byte(config), nil
}

// volumePlugin is the arm's volume plugin, by its name
// in the scheduler's metrics.
func volumePlugin(arm Arm) string {
	switch arm {
	case Stock, ExtenderAdvisory:
		return "VolumeBinding"
	default: // ExtenderFull has none
		return "VolumeTopology"
	}
}
