// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mounts tells what is mounted on a node, from the text files in which the
// kernel says so. It touches no mount: a file system that does not answer cannot
// hold it up. All of it is about paths as the files' owner sees them: give it the
// mountinfo of the host's first process, and paths are paths on the host.
//
// A Table is a picture of one moment. It is never changed once made, and is safe
// for concurrent use.
package mounts
