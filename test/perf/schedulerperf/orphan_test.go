// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// roleEnv makes the test binary play a process in TestKilledBenchmarkTakesEtcdAlong.
const roleEnv = "SCHEDULERPERF_TEST_ROLE"

// play plays a role until it is killed.
func play(role string) error {
	switch role {
	case "benchmark":
		etcd := exec.Command(os.Args[1])
		etcd.Env = append(os.Environ(), roleEnv+"=etcd")
		etcd.Stdin, etcd.Stdout, etcd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return etcd.Run()
	case "etcd":
		fmt.Println("up")
		_, err := io.Copy(io.Discard, os.Stdin) // no process writes
		return err
	}
	return fmt.Errorf("no role %q", role)
}

// TestKilledBenchmarkTakesEtcdAlong: what scheduler_perf starts as etcd ends
// with it, however it ends.
func TestKilledBenchmarkTakesEtcdAlong(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	etcd := filepath.Join(t.TempDir(), etcdName)
	if err := os.Symlink(binary, etcd); err != nil {
		t.Fatal(err)
	}
	benchmark := exec.CommandContext(t.Context(), binary, etcd)
	benchmark.Env = append(os.Environ(), roleEnv+"=benchmark", etcdEnv+"="+binary)
	benchmark.Stderr = os.Stderr
	stdin, err := benchmark.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	// Open at this end, and at the other as long as one of the two runs.
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	benchmark.Stdout = input
	if err := benchmark.Start(); err != nil {
		t.Fatal(err)
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("etcd printed %q (%v), want it up", line, err)
	}
	if err := benchmark.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("etcd printed %q more (%v), want it ended", rest, err)
	}
	_ = benchmark.Wait() // that it was killed
}
