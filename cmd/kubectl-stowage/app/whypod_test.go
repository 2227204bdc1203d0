// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestWhyPod: the output of why for pods.
func TestWhyPod(t *testing.T) {
	for name, args := range map[string][]string{
		"waits":             {"why", "db-3", "-n", "shop"},
		"waits-yaml":        {"why", "pod/db-3", "-n", "shop", "-o", "yaml"},
		"placed":            {"why", "pod", "db-0", "-n", "shop"},
		"unknown-name":      {"why", "db-4", "-n", "shop"},
		"other-namespace":   {"why", "db-3"},
		"unknown-scheduler": {"why", "batch-0", "-n", "shop"},
		"not-a-config":      {"why", "db-3", "-n", "shop", "--config", "testdata/whypod/not-a-config.yaml"},
		"other-config":      {"why", "db-3", "-n", "shop", "--config", "testdata/whypod/other-config.yaml"},
		"no-config":         {"why", "db-3", "-n", "shop", "--config", "testdata/whypod/absent.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, "whypod/"+name, append(args, "--from", "testdata/whypod/cluster.yaml")...)
		})
	}
}

// TestWhyPodUnseen: what could not be read is said, and no pod is said to fit.
func TestWhyPodUnseen(t *testing.T) {
	golden(t, "whypod/pods-only", "why", "db-3", "-n", "shop", "--from", "testdata/whypod/pods.yaml")
	golden(t, "whypod/without-volumes", "why", "db-3", "-n", "shop", "--from", "testdata/whypod/without-volumes.yaml")
}

// TestEscaped: what users of the cluster write does not control the terminal of the one who reads it.
func TestEscaped(t *testing.T) {
	manifest, err := os.ReadFile("testdata/whypod/pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := file(t, "pods.yaml", strings.ReplaceAll(string(manifest), "0/4 nodes are available", `\e[2Jdone\r`))
	var out bytes.Buffer
	for _, name := range []string{"db-3", "\x1b[2J"} {
		Main([]string{"why", name, "-n", "shop", "--from", path}, strings.NewReader(""), &out, &out)
	}
	if text := out.String(); strings.ContainsAny(text, "\x1b\r") || !strings.Contains(text, "^[[2Jdone") {
		t.Errorf("output %q, want ^[[2Jdone and no control characters", text)
	}
}
