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

// run runs a program of the machine; its error has the output.
func run(ctx context.Context, stdin []byte, command ...string) error {
	_, err := output(ctx, bytes.NewReader(stdin), command...)
	return err
}

// output runs a program of the machine and returns its output; an error has its
// standard error. The program gets an unchanged environment.
func output(ctx context.Context, stdin io.Reader, command ...string) (string, error) {
	return outputWith(ctx, stdin, nil, command...)
}

func outputWith(ctx context.Context, stdin io.Reader, env []string, command ...string) (string, error) {
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
	return outputWith(ctx, nil, []string{"KUBECONFIG=" + c.Kubeconfig(), "KUBECACHEDIR=" + c.Folder() + "/kubectl"}, command...)
}

// KubectlPath is where kubectl is.
func (c *Cluster) KubectlPath() string { return c.config.Binaries.Node.Kubectl }
