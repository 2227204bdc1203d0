// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/e2e/frame"
)

// TestKilled: nothing is left of a cluster whose process is killed. When its supervisor is killed
// too, the next cluster removes what is left.
func TestKilled(t *testing.T) {
	e := frame.New(t)
	binary, err := cluster.BuildCommand(e.Context, cluster.BuildOptions{}, "stowage.dev/stowage/hack/cluster")
	if err != nil {
		t.Fatal(err)
	}
	first := startDoomed(t, e, binary)
	first.kill(t, first.supervisor, first.process)
	first.waitEnd(t)
	first.waitGone(t, func() bool { return !first.has("loop", "link") })

	next := startDoomed(t, e, binary)
	if first.has("folder", "groups") {
		t.Error("the next cluster leaves the folder or control groups of the one that was killed with its supervisor")
	}
	next.kill(t, next.process)
	next.waitEnd(t)
	next.waitGone(t, func() bool { return !next.has("folder", "groups", "loop", "link") })
}

// doomed is a cluster with a node, started by another process that the test kills.
type doomed struct {
	process, supervisor int
	folder, link        string
	pidfd               int // of the supervisor
	events              int // the socket of the kernel's events
}

func startDoomed(t *testing.T, e *frame.Env, binary string) *doomed {
	t.Helper()
	events, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(events) })
	if err := unix.Bind(events, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(e.Context, binary, "up", "-real=1", "-no-scheduler")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p := &doomed{process: cmd.Process.Pid, events: events}
	for lines := bufio.NewScanner(out); p.folder == "" && lines.Scan(); {
		if path, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "export KUBECONFIG="); ok {
			p.folder = filepath.Dir(path)
		}
	}
	if p.folder == "" {
		t.Fatalf("no cluster: %v\n%s", cmd.Wait(), stderr.String())
	}
	p.find(t)
	return p
}

// find finds the other parts of the cluster.
func (p *doomed) find(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/run/stowage-realnode", filepath.Base(p.folder)))
	if err != nil {
		t.Fatal(err)
	}
	var record struct{ Supervisor int }
	if err := json.Unmarshal(data, &record); err != nil {
		t.Fatal(err)
	}
	p.supervisor = record.Supervisor
	if p.pidfd, err = unix.PidfdOpen(p.supervisor, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(p.pidfd) })
	config, err := os.ReadFile(filepath.Join(p.folder, "stowage-admin-0.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	_, server, _ := strings.Cut(string(config), "server: https://")
	address, _, _ := strings.Cut(server, ":")
	out, err := exec.Command("ip", "-brief", "address", "show", "to", address).Output()
	if fields := strings.Fields(string(out)); err == nil && len(fields) > 0 {
		p.link, _, _ = strings.Cut(fields[0], "@")
	}
	if !p.has("folder") || !p.has("groups") || !p.has("loop") || !p.has("link") {
		t.Fatalf("parts of the cluster are missing: %+v", p)
	}
}

// has reports whether one of these parts exists.
func (p *doomed) has(things ...string) bool {
	for _, thing := range things {
		pattern := map[string]string{
			"folder": p.folder,
			"groups": "/sys/fs/cgroup/*/" + filepath.Base(p.folder),
			"link":   "/sys/class/net/" + p.link,
			"loop":   "/sys/block/loop*/loop/backing_file",
		}[thing]
		found, _ := filepath.Glob(pattern) // the patterns are good ones
		for _, path := range found {
			if thing != "loop" {
				return true
			}
			if data, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(data), p.folder) {
				return true
			}
		}
	}
	return false
}

func (p *doomed) kill(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// waitEnd waits until the supervisor has removed all and ended.
func (p *doomed) waitEnd(t *testing.T) {
	t.Helper()
	if !readable(t, p.pidfd) {
		t.Fatal("the supervisor still runs")
	}
}

// waitGone waits until gone returns true, after each event of the kernel about devices: it removes
// some of them only after their last user has ended.
func (p *doomed) waitGone(t *testing.T, gone func() bool) {
	t.Helper()
	buffer := make([]byte, 64<<10)
	for !gone() {
		if !readable(t, p.events) {
			t.Fatal("something of it is still there")
		}
		if _, err := unix.Read(p.events, buffer); err != nil && !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
	}
}

// readable waits until fd is readable.
func readable(t *testing.T, fd int) bool {
	t.Helper()
	const milliseconds = 60_000
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, milliseconds)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			t.Fatal(err)
		default:
			return n == 1
		}
	}
}
