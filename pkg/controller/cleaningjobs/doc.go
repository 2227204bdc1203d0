// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cleaningjobs creates the Jobs that clean local disks, at the request of the
// provisioners, and reports their state.
//
// The entries of a node's LocalDiskReport have the requests, status.jobs of its first page has
// the answers. Package cleanjob decides; this package reads what it decides by (the volume from
// the API server, the provisioner's configuration, Jobs and pods) and acts. A node is reconciled
// when its report, or one of its Jobs and pods, changes.
package cleaningjobs
