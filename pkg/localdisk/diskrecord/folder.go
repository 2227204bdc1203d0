// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// folder is what a store needs of the folder it lives in. Names are those of
// files directly in it.
type folder interface {
	names() ([]string, error)
	// read returns the content of a regular file of at most sizeLimit bytes.
	read(name string) ([]byte, error)
	// write creates the file, or replaces its content, and returns once the content
	// is on disk. The name need not be: sync does that.
	write(name string, data []byte) error
	rename(from, to string) error
	remove(name string) error
	// sync returns once all names are on disk.
	sync() error
	Close() error
}

// locked is a real folder that no other process has.
type locked struct {
	root *os.Root
	// self is the folder, for the first of locks and for sync.
	self  *os.File
	locks []*fileLock
}

var _ folder = (*locked)(nil)

// lock creates the folder if necessary, and locks it without waiting.
func lock(path, proc string) (*locked, error) {
	if err := makeFolder(filepath.Clean(path)); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	self, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	l := &locked{root: root, self: self}
	if err := l.own(proc); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// makeFolder creates the folder and its parents so that they survive a power cut.
func makeFolder(path string) error {
	parent := filepath.Dir(path)
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrNotExist) && parent != path {
		if err := makeFolder(parent); err != nil {
			return err
		}
		err = os.Mkdir(path, 0o700)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// own takes the lock, which is released when the process ends, and restricts the folder to its
// owner.
func (l *locked) own(proc string) error {
	if err := l.acquire(proc); err != nil {
		return err
	}
	info, err := l.self.Stat()
	if err != nil || info.Mode().Perm() == 0o700 {
		return err
	}
	return l.self.Chmod(0o700)
}

func (l *locked) names() ([]string, error) {
	// A separate descriptor, since reading advances its offset.
	dir, err := l.root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	return names, errors.Join(err, dir.Close())
}

func (l *locked) read(name string) ([]byte, error) {
	if info, err := l.root.Lstat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a file but %s", info.Mode())
	}
	file, err := l.root.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, sizeLimit+1))
	if err == nil && len(data) > sizeLimit {
		err = fmt.Errorf("it has more than %d bytes", sizeLimit)
	}
	return data, errors.Join(err, file.Close())
}

func (l *locked) write(name string, data []byte) error {
	file, err := l.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func (l *locked) rename(from, to string) error { return l.root.Rename(from, to) }

func (l *locked) remove(name string) error { return l.root.Remove(name) }

func (l *locked) sync() error { return l.self.Sync() }

// Close releases the locks.
func (l *locked) Close() error {
	var problems error
	for i, lock := range l.locks {
		problems = errors.Join(problems, lock.release())
		if i > 0 { // the first is the folder itself
			problems = errors.Join(problems, lock.file.Close())
		}
	}
	return errors.Join(problems, l.self.Close(), l.root.Close())
}
