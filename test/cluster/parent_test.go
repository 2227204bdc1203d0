// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// parentEnv makes the test binary start a cluster with the binaries it holds
// and hang, to be killed.
const parentEnv = "CLUSTER_TEST_PARENT"

// processes is what the parent prints on standard output.
type processes struct {
	Folder string
	PIDs   []int
}

func actAsParent() {
	var config Config
	if err := json.Unmarshal([]byte(os.Getenv(parentEnv)), &config.Binaries); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTimeout)
	defer cancel()
	c, err := Start(ctx, config)
	if err != nil {
		panic(err)
	}
	p, err := c.StartHealthyScheduler(ctx, SchedulerOptions{})
	if err != nil {
		panic(err)
	}
	f := processes{Folder: c.Folder(), PIDs: []int{c.supervisor.PID(), p.PID()}}
	for _, m := range []*Component{c.Etcd(), c.APIServer(), c.ControllerManager(), c.Kwok()} {
		f.PIDs = append(f.PIDs, m.Process().PID())
	}
	if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
		panic(err)
	}
	<-ctx.Done()
}

// TestKilledParentLeavesNothing kills a process that has a cluster, as the
// system does when memory runs out, and as "go test" does when time does.
func TestKilledParentLeavesNothing(t *testing.T) {
	ctx := scenario(t)
	binaries, err := json.Marshal(fixture.binaries)
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.CommandContext(ctx, os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+string(binaries))
	var stderr strings.Builder
	parent.Stderr = &stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("%v: %v\n%s", err, parent.Wait(), stderr.String())
	}
	var f processes
	if err := json.Unmarshal(line, &f); err != nil {
		t.Fatal(err)
	}
	children := make([]unix.PollFd, len(f.PIDs))
	for i, pid := range f.PIDs {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatalf("child %d: %v", pid, err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		children[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}

	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // that it was killed
	for i := range children {
		if !ends(t, children[i:i+1]) {
			t.Errorf("process %d of %v still runs", f.PIDs[i], f.PIDs)
		}
	}
	if _, err := os.Stat(f.Folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cluster's folder: %v, want it removed", err)
	}
}

// ends waits for a process's end.
func ends(t *testing.T, process []unix.PollFd) bool {
	t.Helper()
	const milliseconds = 30_000
	for {
		n, err := unix.Poll(process, milliseconds)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			t.Fatal(err)
		default:
			return n == 1
		}
	}
}
