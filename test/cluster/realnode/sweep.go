// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

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
	Started    string
}

// record stores the cluster's remains, until they are removed.
func record(c *cluster.Cluster) error {
	supervisor := c.SupervisorPID()
	stat, err := statOf(supervisor)
	if err != nil {
		return err
	}
	data, err := json.Marshal(remains{Folder: c.Folder(), Supervisor: supervisor, Started: stat.started})
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
	if err == nil && stat.started == r.Started && stat.state != "Z" {
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

// stat has fields of /proc/PID/stat.
type stat struct{ state, started string }

func statOf(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, syscall.ESRCH) { // it ended meanwhile
		err = fs.ErrNotExist
	}
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(data))
}

// parseStat reads fields after the name, which is in parentheses and may have some itself.
func parseStat(text string) (stat, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("%q is not the state of a process", text)
	}
	return stat{state: fields[0], started: fields[19]}, nil
}
