// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioner measures one provisioner: the stowage-provisioner command, with the
// manifests' rights and under their policies, on real disks and a real control plane.
//
//	site, err := provisioner.Open(ctx, provisioner.Config{...})
//	...
//	defer site.Close()
//	appearing, releasing, err := site.Latencies(ctx, 50)
//
// It requires root. Close undoes all mounts and attached devices. A Site
// measures one thing at a time.
package provisioner
