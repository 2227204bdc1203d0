// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The classes of published volumes. Each has a folder of its name on every node.
const (
	dataClass = "local-data"
	logClass  = "local-log"
)

// diskBytes is the size of a disk. None is there: it is what files with holes seem to
// have, and what a file system in memory may grow to.
const diskBytes = 2 << 30

// disks are published by the provisioners. Real ones are mounted file systems and loop devices,
// which take root; others are plain folders.
type disks struct {
	// folder has a folder for each node, and everything else.
	folder string
	real   bool
	// why they are not real.
	why string
	// undo removes what was made, the last first.
	undo []func() error
}

// newDisks makes a folder for disks, and finds out of which sort they can be. On an
// error too, what it returns is to be removed.
func newDisks(wantFolders bool) (*disks, error) {
	d := &disks{}
	without := ""
	switch {
	case wantFolders:
		without = "FOLDERS is set"
	case os.Geteuid() != 0:
		without = "mounts and loop devices take root"
	}
	if without != "" {
		err := d.useFolders(without)
		return d, err
	}
	if err := d.makeFolder(os.TempDir()); err != nil {
		return d, err
	}
	d.real = true
	why := d.try()
	if why == nil {
		return d, nil
	}
	if err := d.remove(); err != nil {
		return d, err
	}
	err := d.useFolders(why.Error())
	return d, err
}

// try makes a disk of each kind that cannot be made everywhere.
func (d *disks) try() error {
	if err := d.mountMemory(filepath.Join(d.folder, "try")); err != nil {
		return err
	}
	return d.device(filepath.Join(d.folder, "try-device"))
}

// useFolders uses plain folders, on a file system that can be published.
func (d *disks) useFolders(why string) error {
	d.real, d.why = false, why
	for _, base := range []string{os.TempDir(), "/dev/shm", "."} {
		if publishable(base) {
			return d.makeFolder(base)
		}
	}
	return fmt.Errorf("no folder on a local file system: set TMPDIR to one, %s is none", os.TempDir())
}

func (d *disks) makeFolder(base string) error {
	base, err := filepath.Abs(base)
	if err != nil {
		return err
	}
	if base, err = filepath.EvalSymlinks(base); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(base, "stowage-demo-disks-")
	if err != nil {
		return err
	}
	d.folder = folder
	d.undo = append(d.undo, func() error { return os.RemoveAll(folder) })
	return nil
}

// remove removes everything. What is mounted over a folder keeps it from being
// removed, so nothing that is mounted is emptied.
func (d *disks) remove() error {
	if d == nil {
		return nil
	}
	for len(d.undo) > 0 {
		last := len(d.undo) - 1
		if err := d.undo[last](); err != nil {
			return fmt.Errorf("remove the disks in %s: %w", d.folder, err)
		}
		d.undo = d.undo[:last]
	}
	return nil
}

// node is the folder of a node.
func (d *disks) node(name string) string { return filepath.Join(d.folder, name) }

// add makes what a node has: a disk of each class, and what is to be skipped.
func (d *disks) add(node string) error {
	for _, class := range []string{dataClass, logClass} {
		if err := os.MkdirAll(filepath.Join(d.node(node), class), 0o755); err != nil {
			return err
		}
	}
	data, log := filepath.Join(d.node(node), dataClass), filepath.Join(d.node(node), logClass)
	if err := errors.Join(d.files(filepath.Join(data, "disk1")), d.bytes(filepath.Join(log, "disk1"))); err != nil {
		return err
	}
	switch skipped[node].reason {
	case "NotMountPoint":
		return os.Mkdir(filepath.Join(data, skipped[node].disk), 0o755)
	case "NotEmpty":
		return d.used(filepath.Join(data, skipped[node].disk))
	}
	return nil
}

// used makes a file system that holds something already.
func (d *disks) used(path string) error {
	if err := d.files(path); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(path, "letters.txt"), []byte("Dear Sirs,\n"), 0o600)
}

// files makes a file system at a path, or what stands for one.
func (d *disks) files(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil || !d.real {
		return err
	}
	return d.mount(path)
}

// bytes makes a block device with a link at a path, or what stands for one.
func (d *disks) bytes(path string) error {
	if !d.real {
		return os.Mkdir(path, 0o755)
	}
	return d.device(path)
}
