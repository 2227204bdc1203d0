// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package disk is the vocabulary in which the parts of the node agent speak of
// local disks: what lies at a path (Fact), which bytes these are (Identity,
// Place), what the node remembers of them (Record), the volume that offers them
// (Volume), and what is asked of those who look at disks and clean them (Scan,
// Clean). Nothing here acts, and nothing here knows Kubernetes, so that those who
// decide and those who touch devices share it without knowing one another.
package disk
