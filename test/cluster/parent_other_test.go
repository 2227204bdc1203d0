// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cluster

// parentEnv is used by a test that needs Linux.
const parentEnv = "CLUSTER_TEST_PARENT"

func actAsParent() { panic("needs Linux") }
