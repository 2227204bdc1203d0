// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskfaults_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/integration/node"
)

// medium is the content of a disk.
type medium interface {
	// dirt describes data that must not be on a disk that is published with the mode; empty if it
	// is clean.
	dirt(mode corev1.PersistentVolumeMode) (string, error)
	// plant fills the disk with the data of a tenant that has a volume of the mode.
	plant(mode corev1.PersistentVolumeMode, random *rand.Rand) error
	// empty removes all data, as an administrator does.
	empty() error
	// intact checks that the data planted last is unchanged.
	intact() error
}

// tree is a mounted file system.
type tree struct {
	path    string
	root    unix.Stat_t // before the first use
	planted map[string]string
}

func newTree(n *node.Node, path string) *tree {
	t := &tree{path: path}
	if err := unix.Stat(path, &t.root); err != nil {
		n.Env.T.Fatal(err)
	}
	return t
}

func (t *tree) dirt(corev1.PersistentVolumeMode) (string, error) {
	entries, err := os.ReadDir(t.path)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if entry.Name() != "lost+found" {
			return fmt.Sprintf("%s and %d more", entry.Name(), len(entries)-1), nil
		}
	}
	var now unix.Stat_t
	if err := unix.Stat(t.path, &now); err != nil {
		return "", err
	}
	if now.Mode != t.root.Mode || now.Uid != t.root.Uid || now.Gid != t.root.Gid {
		return fmt.Sprintf("the root has mode %o and owner %d:%d", now.Mode, now.Uid, now.Gid), nil
	}
	return "", nil
}

func (t *tree) plant(_ corev1.PersistentVolumeMode, random *rand.Rand) error {
	t.planted = map[string]string{}
	for i := range 40 {
		file := fmt.Sprintf("file-%d", i)
		if i%4 == 0 {
			file = filepath.Join(fmt.Sprintf("folder-%d", i), "deeper", file)
		}
		t.planted[file] = strconv.FormatUint(random.Uint64(), 10)
		path := filepath.Join(t.path, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(t.planted[file]), 0o400); err != nil {
			return err
		}
	}
	return errors.Join(os.Chown(t.path, 1000, 2000), os.Chmod(t.path, 0o770|os.ModeSetgid)) // as fsGroup does
}

func (t *tree) empty() error {
	entries, err := os.ReadDir(t.path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == "lost+found" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(t.path, entry.Name())); err != nil {
			return err
		}
	}
	return errors.Join(unix.Chown(t.path, int(t.root.Uid), int(t.root.Gid)), unix.Chmod(t.path, t.root.Mode))
}

func (t *tree) intact() error {
	for file, want := range t.planted {
		got, err := os.ReadFile(filepath.Join(t.path, file))
		if err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
	return nil
}

// device is a block device.
type device struct {
	path string
	sum  uint32
}

func (d *device) dirt(mode corev1.PersistentVolumeMode) (string, error) {
	if mode == corev1.PersistentVolumeFilesystem {
		out, err := exec.Command("wipefs", "--no-act", "--noheadings", d.path).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("wipefs: %w: %s", err, out)
		}
		return strings.TrimSpace(string(out)), nil
	}
	found := ""
	err := d.read(func(at int64, p []byte) {
		for i, b := range p {
			if b != 0 && found == "" {
				found = fmt.Sprintf("byte %d is %#x", at+int64(i), b)
			}
		}
	})
	return found, err
}

func (d *device) plant(mode corev1.PersistentVolumeMode, random *rand.Rand) error {
	if mode == corev1.PersistentVolumeFilesystem {
		return d.format(random)
	}
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(random.Uint32())
	}
	file, err := os.OpenFile(d.path, os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	p, free, err := aligned()
	if err != nil {
		return err
	}
	defer free()
	_, _ = rand.NewChaCha8(seed).Read(p) // never fails
	for {
		if _, err := file.Write(p); errors.Is(err, syscall.ENOSPC) {
			return d.remember()
		} else if err != nil {
			return err
		}
	}
}

func (d *device) empty() error {
	if out, err := exec.Command("blkdiscard", "--force", "--zeroout", d.path).CombinedOutput(); err != nil {
		return fmt.Errorf("blkdiscard: %w: %s", err, out)
	}
	return nil
}

// format makes a file system, as kubelet does when a pod uses the volume.
func (d *device) format(random *rand.Rand) error {
	command := [][]string{{"mkfs.ext4", "-q", "-F"}, {"mkfs.vfat", "-I"}, {"mkswap"}}[random.IntN(3)]
	if _, err := exec.LookPath(command[0]); err != nil {
		command = []string{"mkfs.ext4", "-q", "-F"}
	}
	if out, err := exec.Command(command[0], append(command[1:], d.path)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command[0], err, out)
	}
	if dirt, err := d.dirt(corev1.PersistentVolumeFilesystem); err != nil || dirt == "" {
		return fmt.Errorf("%s left nothing that wipefs knows: %w", command[0], err)
	}
	return d.remember()
}

// remember records the content of the device.
func (d *device) remember() error {
	var err error
	d.sum, err = d.checksum()
	return err
}

func (d *device) checksum() (sum uint32, err error) {
	table := crc32.MakeTable(crc32.Castagnoli)
	err = d.read(func(_ int64, p []byte) { sum = crc32.Update(sum, table, p) })
	return sum, err
}

func (d *device) intact() error {
	now, err := d.checksum()
	if err == nil && now != d.sum {
		err = fmt.Errorf("%s has checksum %x, want %x", d.path, now, d.sum)
	}
	return err
}

// read reads all of the device, bypassing the page cache.
func (d *device) read(each func(at int64, p []byte)) error {
	file, err := os.OpenFile(d.path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	p, free, err := aligned()
	if err != nil {
		return err
	}
	defer free()
	for at := int64(0); ; {
		n, err := file.Read(p)
		each(at, p[:n])
		at += int64(n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// aligned is a buffer for reads and writes that bypass the page cache.
func aligned() (buffer []byte, free func(), err error) {
	p, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return p, func() { _ = unix.Munmap(p) }, err
}
