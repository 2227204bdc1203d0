// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cleaningjobs makes the Jobs that clean local disks, at the request of the
// nodes' agents, and tells these how the Jobs stand.
//
// Requests stand in the entries of a node's LocalDiskReport, answers in status.jobs of
// its first page. Package cleanjob decides; here is gathered what it decides by (the
// volume as the API server has it, the agents' configuration, Jobs and pods of the
// namespace), and done what it says. A node is looked at when its report, or a Job or
// pod of it, has changed.
package cleaningjobs
