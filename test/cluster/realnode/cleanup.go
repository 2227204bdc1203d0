// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prometheus/procfs"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/internal/supervise"
)

// records has a file for each cluster that has something to remove.
const records = "/run/stowage-realnode"

// remains lists what a cluster leaves behind apart from processes, and the process that removes
// it. Other processes remove it only if that process was killed.
type remains struct {
	Folder string
	// Supervisor is a process, by its id and by when it started, as the kernel counts.
	Supervisor int
	Started    uint64
}

// record stores the cluster's remains, until they are removed.
func record(c *cluster.Cluster) error {
	supervisor := c.SupervisorPID()
	stat, err := statOf(supervisor)
	if err != nil {
		return err
	}
	data, err := json.Marshal(remains{Folder: c.Folder(), Supervisor: supervisor, Started: stat.Starttime})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(records, 0o755); err != nil {
		return err
	}
	file := filepath.Join(records, group(c))
	c.Prune(file)
	return os.WriteFile(file, data, 0o644)
}

// sweep removes the remains of clusters whose supervisor was killed.
func sweep() error {
	files, err := filepath.Glob(filepath.Join(records, "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		errs = append(errs, sweepOne(file))
	}
	return errors.Join(errs...)
}

func sweepOne(file string) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its cluster removed it meanwhile
	}
	if err != nil {
		return err
	}
	var r remains
	if json.Unmarshal(data, &r) != nil || filepath.Base(r.Folder) != filepath.Base(file) {
		return nil // it is being written, or of another program
	}
	stat, err := statOf(r.Supervisor)
	if err == nil && stat.Starttime == r.Started && stat.State != "Z" {
		return nil // it runs, and removes all itself
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = inHierarchies(filepath.Base(r.Folder), supervise.Prune)
	if err := errors.Join(err, os.RemoveAll(r.Folder)); err != nil {
		return err
	}
	return supervise.Prune(file)
}

// statOf returns the state of a process; fs.ErrNotExist if there is none.
func statOf(pid int) (procfs.ProcStat, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	stat, err := process.Stat()
	if errors.Is(err, syscall.ESRCH) { // it ended meanwhile
		err = fs.ErrNotExist
	}
	return stat, err
}

// inHierarchies calls do with the path of a control group in each hierarchy, until one fails: one
// for each controller of cgroup v1, or the one of cgroup v2. A hierarchy may have several paths.
func inHierarchies(group string, do func(dir string) error) error {
	pattern := "/sys/fs/cgroup/*/cgroup.procs"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		pattern = "/sys/fs/cgroup/cgroup.procs"
	}
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no control groups: %s", pattern)
	}
	for _, file := range files {
		if err := do(filepath.Join(filepath.Dir(file), group)); err != nil {
			return err
		}
	}
	return err
}

// makeGroups makes the cluster's control groups, with one for each node, and registers their
// removal at the end.
func makeGroups(c *cluster.Cluster) error {
	return inHierarchies(group(c), func(dir string) error {
		c.Prune(dir)
		return os.MkdirAll(dir, 0o755)
	})
}

// group is the name of the cluster's control groups, which no other cluster has.
func group(c *cluster.Cluster) string { return filepath.Base(c.Folder()) }

// makeGroups makes a node's control groups.
func (n *Node) makeGroups() error {
	return inHierarchies(n.group(), func(dir string) error { return os.MkdirAll(dir, 0o755) })
}

func (n *Node) group() string { return filepath.Join(group(n.cluster.Cluster), n.Name) }
