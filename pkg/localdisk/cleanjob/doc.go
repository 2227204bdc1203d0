// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cleanjob decides about cleaning Jobs: whether a node agent's request for one
// is granted (Approve), what the Job looks like (Order.Job), and how it stands by what
// the API server shows of it (Look).
//
// A request is believed in what it can only lose by a lie. Where the Job runs follows
// from the report that the request is in, what it may touch from the volume and from
// the agents' configuration, how it cleans from the configuration alone.
// docs/design/cleaning-jobs.md has the reasons.
package cleanjob
