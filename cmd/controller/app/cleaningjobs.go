// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"stowage.dev/stowage/pkg/controller/cleaningjobs"
)

// Namespace of the provisioners, and name of their ConfigMap and DaemonSet:
// manifests/provisioner.
const (
	provisionerNamespace = "stowage-system"
	provisionerName      = "stowage-provisioner"
)

// newCleaningJobs creates cleaning Jobs, if that is enabled.
func newCleaningJobs(p *parts) (func(context.Context) error, error) {
	if !p.settings.CleaningJobs.Enabled {
		return func(ctx context.Context) error { <-ctx.Done(); return nil }, nil
	}
	controller, err := cleaningjobs.New(cleaningjobs.Config{
		Client: p.client, Reports: p.reports, ReportInformer: p.reportInformer,
		Namespace: provisionerNamespace, ConfigMap: provisionerName, DaemonSet: provisionerName, Image: p.settings.CleaningJobs.Image,
	})
	if err != nil {
		return nil, err
	}
	return controller.Run, nil
}
