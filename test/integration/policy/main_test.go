// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy_test tests the provisioner's manifests on a real API
// server: what the provisioner of one node may write, and that its token
// gives no access to the volumes, the report and the Node of another.
//
// Provisioners have the tokens that kubelet would give them, bound to a pod on their
// node, and the rights of the manifests. Where RBAC alone already refuses a
// request, the test repeats it as a user of the same name and node with all
// rights, so that the policy answers.
package policy_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
)

var (
	// startTimeout bounds the start of the cluster. A cold build of the control
	// plane is most of it.
	startTimeout = 30 * deadline.Wait()
	// waitTimeout bounds a single wait on a machine with other load.
	waitTimeout = deadline.Wait()
)

// shared is what TestMain makes for all tests.
var shared *env

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run()
	}
	code, err := onCluster(m.Run)
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration tests:", err)
		return max(code, 1)
	}
	return code
}

// onCluster runs the tests on a cluster without nodes' provisioners and schedulers.
// Its only controller reports the types of the policies' expressions.
func onCluster(tests func() int) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	binaries, err := cluster.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
	if err != nil {
		return 1, err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Binaries:          binaries,
		NoKwok:            true,
		ControllerManager: cluster.ControllerManagerConfig{Controllers: []string{"validatingadmissionpolicy-status-controller"}},
	})
	if err != nil {
		return 1, err
	}
	defer func() {
		shared.close()
		err = errors.Join(err, c.Stop())
	}()
	if shared, err = newEnv(ctx, c); err != nil {
		return 1, errors.Join(err, c.DumpLogs(os.Stderr))
	}
	return tests(), nil
}
