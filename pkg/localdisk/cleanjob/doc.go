// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cleanjob has the rules of cleaning Jobs: whether a provisioner's request for one is
// approved (Approve), the Job itself (Order.Job), and its progress as the API server shows it
// (StatusOf).
//
// A request is trusted only where a false one is to its sender's own disadvantage. Where the Job runs
// follows from the report that has the request, what it may access from the volume and the
// configuration, how it cleans from the configuration alone. docs/design/cleaning-jobs.md has
// the reasons.
package cleanjob
