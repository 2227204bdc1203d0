// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"stowage.dev/stowage/pkg/controller/cleaningjobs"
)

// Where the agents are, and what their configuration and their DaemonSet are called:
// manifests/provisioner.
const (
	agentNamespace = "stowage-system"
	agentName      = "stowage-provisioner"
)

// newCleaningJobs makes the loop that makes cleaning Jobs, if it is wanted.
func newCleaningJobs(p *parts) (func(context.Context) error, error) {
	if !p.settings.CleaningJobs.Enabled {
		return func(ctx context.Context) error { <-ctx.Done(); return nil }, nil
	}
	controller, err := cleaningjobs.New(cleaningjobs.Config{
		Client: p.client, Reports: p.reports, ReportInformer: p.reportInformer,
		Namespace: agentNamespace, ConfigMap: agentName, DaemonSet: agentName, Image: p.settings.CleaningJobs.Image,
	})
	if err != nil {
		return nil, err
	}
	return controller.Run, nil
}
