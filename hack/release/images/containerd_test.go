// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// containerdTimeout limits each wait for containerd. It is not a multiple of test/deadline, which is
// in another module, but long enough for a slow machine.
const containerdTimeout = 8 * time.Minute

// TestContainerdImports: a real containerd takes archives as they are, under the name that
// manifests have, and with the digest that was printed. The second command is that of
// "kind load image-archive", which passes the archive on standard input.
func TestContainerdImports(t *testing.T) {
	ctr := newContainerd(t)
	for title, platforms := range map[string][]v1.Platform{
		"an image of one platform": {amd64},
		"an index of two":          {amd64, arm64},
	} {
		t.Run(title, func(t *testing.T) {
			o := newOptions(t, "stowage-scheduler")
			o.platforms, o.tag = platforms, fmt.Sprintf("of-%d", len(platforms))
			a, path := written(t, o)
			// Unpacked, so that containerd checks every layer against the digest in the image.
			ctr(t, "images", "import", "--snapshotter=native", "--platform=linux/amd64", path)
			ctr(t, "--namespace=k8s.io", "images", "import", "--all-platforms", "--digests", "--snapshotter=native", path)
			digest, err := a.top().Digest()
			if err != nil {
				t.Fatal(err)
			}
			want := []string{a.reference, digest.String()}
			for _, namespace := range []string{"default", "k8s.io"} {
				var got []string
				for line := range strings.Lines(ctr(t, "--namespace="+namespace, "images", "list", "name=="+a.reference)) {
					if fields := strings.Fields(line); fields[0] == a.reference {
						got = append(got, fields[0], fields[2])
					}
				}
				if strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("containerd has %v in namespace %s, want %v", got, namespace, want)
				}
			}
		})
	}
}

// newContainerd runs a separate containerd until the test ends, and returns a function that runs
// ctr with arguments and returns its output. It skips the test where containerd cannot run.
func newContainerd(t *testing.T) func(t *testing.T, args ...string) string {
	t.Helper()
	daemon, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip("containerd is not installed")
	}
	client, err := exec.LookPath("ctr")
	if err != nil {
		t.Skip("ctr is not installed")
	}
	if os.Geteuid() != 0 {
		t.Skip("containerd needs root to unpack layers")
	}
	// The path of a socket must be short.
	folder, err := os.MkdirTemp("", "ctr") //nolint:usetesting // its own names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(folder, "s")
	config := filepath.Join(folder, "config.toml")
	writeFile(t, config, fmt.Appendf(nil, `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
  address = %q
`, filepath.Join(folder, "root"), filepath.Join(folder, "state"), socket))
	startContainerd(t, daemon, config, folder)

	return func(t *testing.T, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), containerdTimeout)
		defer cancel()
		out, err := exec.CommandContext(ctx, client, append([]string{"--address", socket}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ctr %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}

// startContainerd returns when containerd logs that it has started.
func startContainerd(t *testing.T, daemon, config, folder string) {
	t.Helper()
	command := exec.Command(daemon, "--config", config)
	command.Env = append(os.Environ(), "TMPDIR="+folder)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	up, ended := make(chan struct{}), make(chan []string, 1)
	go func() {
		var logged []string
		for lines := bufio.NewScanner(log); lines.Scan(); {
			logged = append(logged, lines.Text())
			if strings.Contains(lines.Text(), "containerd successfully booted") {
				close(up)
			}
		}
		ended <- logged
	}()
	select {
	case <-up:
	case logged := <-ended:
		t.Fatalf("containerd ended: %v\n%s", command.Wait(), strings.Join(logged, "\n"))
	case <-time.After(containerdTimeout):
		_ = command.Process.Kill()
		t.Fatalf("containerd is not up after %v:\n%s", containerdTimeout, strings.Join(<-ended, "\n"))
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = command.Wait()
	})
}
