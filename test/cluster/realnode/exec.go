// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// run runs a program of the machine; its error has the standard error.
func run(ctx context.Context, stdin string, command ...string) error {
	_, err := output(ctx, strings.NewReader(stdin), nil, command...)
	return err
}

// output runs a program of the machine and returns its output; an error has its
// standard error. env extends the environment.
func output(ctx context.Context, stdin io.Reader, env []string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = stdin
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out.String(), nil
}

// Kubectl runs kubectl as an administrator and returns its standard output. The
// error has its standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	command := append([]string{c.config.Binaries.Node.Kubectl}, args...)
	return output(ctx, nil, []string{"KUBECONFIG=" + c.Kubeconfig(), "KUBECACHEDIR=" + c.Folder() + "/kubectl"}, command...)
}

// KubectlPath is where kubectl is.
func (c *Cluster) KubectlPath() string { return c.config.Binaries.Node.Kubectl }
