// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskstress_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const canaryText = "outside of every volume"

// makeCanary makes a file outside the volumes that links in volumes refer to.
func (s *stress) makeCanary() {
	s.canary = filepath.Join(s.t.TempDir(), "canary")
	if err := os.WriteFile(s.canary, []byte(canaryText), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stress) checkCanary() {
	s.t.Helper()
	if text, err := os.ReadFile(s.canary); err != nil || string(text) != canaryText {
		s.t.Errorf("what links in volumes lead to holds %q: %v", text, err)
	}
}

// measures are a provisioner's.
type measures struct {
	resident, most int // KiB
	descriptors    int
}

func (s *stress) measureProvisioners() map[string]measures {
	s.t.Helper()
	all := map[string]measures{}
	for name, n := range s.nodes {
		process := fmt.Sprintf("/proc/%d", n.Process().PID())
		status, err := os.ReadFile(process + "/status")
		if err != nil {
			s.t.Fatal(err)
		}
		descriptors, err := os.ReadDir(process + "/fd")
		if err != nil {
			s.t.Fatal(err)
		}
		all[name] = measures{resident: field(string(status), "VmRSS:"), most: field(string(status), "VmHWM:"), descriptors: len(descriptors)}
	}
	return all
}

// field is a number in a file of /proc; 0 if it is not there.
func field(text, key string) int {
	_, rest, _ := strings.Cut(text, key)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	number, _ := strconv.Atoi(words[0])
	return number
}

// checkMounts checks that the nodes have the mounts and loop devices that they began
// with.
func (s *stress) checkMounts() {
	s.t.Helper()
	for name, n := range s.nodes {
		if mounts := mountsBelow(s.t, n.Folder); mounts != inMemory+onLoop {
			s.t.Errorf("node %s has %d mounts, and began with %d", name, mounts, inMemory+onLoop)
		}
		if loops := loopsOn(s.t, n.Folder); loops != onLoop+raw {
			s.t.Errorf("node %s has %d loop devices, and began with %d", name, loops, onLoop+raw)
		}
	}
}

// noLeaks checks, after all other cleanups of the test, whether mounts or loop devices of its
// nodes are left. Its result registers a node's folder.
func noLeaks(t *testing.T) (watch func(folder string)) {
	var folders []string
	t.Cleanup(func() {
		for _, folder := range folders {
			if mounts, loops := mountsBelow(t, folder), loopsOn(t, folder); mounts+loops > 0 {
				t.Errorf("%d mounts and %d loop devices in %s are left", mounts, loops, folder)
			}
		}
	})
	return func(folder string) { folders = append(folders, folder) }
}

// mountsBelow counts the mounts whose path begins with a prefix.
func mountsBelow(t *testing.T, prefix string) int {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(table), " "+prefix)
}

// loopsOn counts the loop devices of files whose path begins with a prefix.
func loopsOn(t *testing.T, prefix string) int {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if backing, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(backing), prefix) {
			n++
		}
	}
	return n
}
