// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	_ "k8s.io/component-base/logs/json/register" // -logging-format=json
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
)

// TestMain also turns this binary into etcd; see environment.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == etcdName {
		fmt.Fprintln(os.Stderr, execEtcd())
		os.Exit(1)
	}
	if role := os.Getenv(roleEnv); role != "" {
		fmt.Fprintln(os.Stderr, play(role))
		os.Exit(1)
	}
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
