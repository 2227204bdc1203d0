// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cputime

import "time"

var began = time.Now()

// Thread is the time that has passed: the CPU time of a thread is known on
// Linux only.
func Thread() time.Duration { return time.Since(began) }
