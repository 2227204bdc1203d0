// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"errors"
	"os"
	"path/filepath"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/internal/supervise"
)

// hierarchies returns the folders that control groups are made in: one for each controller of
// cgroup v1, or the one of cgroup v2.
func hierarchies() ([]string, error) {
	const top = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(top, "cgroup.controllers")); err == nil {
		return []string{top}, nil
	}
	entries, err := os.ReadDir(top)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() { // not one of the links, such as that of cpu to cpu,cpuacct
			found = append(found, filepath.Join(top, e.Name()))
		}
	}
	if len(found) == 0 {
		return nil, errors.New(top + " has no control groups")
	}
	return found, nil
}

// inHierarchies calls do with the path of a control group in each hierarchy, until one fails.
func inHierarchies(group string, do func(dir string) error) error {
	tops, err := hierarchies()
	if err != nil {
		return err
	}
	for _, top := range tops {
		if err := do(filepath.Join(top, group)); err != nil {
			return err
		}
	}
	return nil
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

// removeGroups removes the control groups of a killed node, and those of its
// containers. Otherwise its next kubelet would search for these containers for seconds before it
// is Ready.
func (n *Node) removeGroups() error { return inHierarchies(n.group(), supervise.Prune) }

func (n *Node) group() string { return filepath.Join(group(n.cluster.Cluster), n.Name) }
