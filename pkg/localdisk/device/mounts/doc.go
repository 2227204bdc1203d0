// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mounts reads what is mounted on a node from the kernel's text files. It accesses no
// mount, so it never waits for a file system. Paths are those of the files' owner: with the
// mountinfo of the host's first process, paths are paths on the host.
//
// A Table is a snapshot. It is immutable, and safe for concurrent use.
package mounts
