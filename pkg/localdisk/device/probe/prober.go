// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe scans the discovery directories: file systems, block devices and plain
// directories that can be volumes, and why others cannot. The result are facts; package decide
// decides what is published.
//
// # What is accessed
//
// First the mount table, which is text: what is mounted at an entry is known before the entry is
// accessed, and a file system that is not mounts.Supported is never accessed, since its server
// may never answer. Then statx (without automounting, following symlinks, or asking a server),
// readlink, sysfs, and statfs. A device, a FIFO or a socket is never opened. The root of a file
// system, and a plain directory, is opened once for its UUID, and not again while the same mount
// or inode is there, so that repeated scans do no input or output on any device.
//
// # What does not answer
//
// Each entry is examined by its own goroutine, with a deadline. One that has not answered by
// then is TimedOut, and is not examined again before it has answered: a disk that does not
// answer costs one goroutine and one thread, however many scans follow. Only the kernel can
// end such a goroutine. They are the only ones that outlive a call.
//
// # Two views
//
// The provisioner in its container sees the discovery directory at disk.Folder.Path, the host
// at disk.Folder.HostPath, perhaps through symlinks that the container lacks. So the mount at
// an entry is determined by the provisioner's own mountinfo and Path. The host's mountinfo
// must have the same folder of the same file system mounted somewhere (paths are not
// compared): otherwise the provisioner sees a mount that the host has already unmounted. If
// the host has a mount at the entry's HostPath that the provisioner does not see, mounts do
// not propagate to its container. Either way it is MountMissing. Symlinks to devices are
// followed in the container: its /dev must be the host's.
package probe

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/identity"
	"stowage.dev/stowage/pkg/localdisk/device/usage"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Config configures a Prober. Fstab, Machine and Timeout are optional.
type Config struct {
	// Usage finds what the node uses disks for.
	Usage *usage.Finder
	// HostMountinfo has the mounts of the host ("/proc/1/mountinfo", in the host's PID
	// namespace).
	HostMountinfo string
	// Fstab is the host's fstab, as a path of this process. If it is empty, only records show
	// that a disk should be mounted on a plain directory.
	Fstab string
	// Sys is where sysfs is, Dev where device nodes are. Symlinks may lead nowhere but there.
	Sys, Dev string
	// Machine is identity.Host.Machine.
	Machine string
	// Timeout limits the examination of a folder or an entry, until SetTimeout changes it; 5 s
	// if 0.
	Timeout time.Duration
}

// parallel is how many entries are examined at once.
const parallel = 8

// Prober finds disks. It is safe for concurrent use; scans are serialized.
type Prober struct {
	cfg     Config
	timeout atomic.Int64 // a time.Duration
	// parallel is how many entries are examined at once.
	parallel int
	scanning chan struct{}
	workers  workers
	// identities reads the identities of disks on this node.
	identities identity.Host

	mu    sync.Mutex
	known map[inode]disk.Identity

	// statfs returns a file system's size. Tests replace it by one that hangs.
	statfs func(path string, st *unix.Statfs_t) error
	// newWatcher makes an inotify instance, of which a node has few.
	newWatcher func() (*fsnotify.Watcher, error)
}

// New validates the configuration and returns a Prober, which holds no descriptor.
func New(cfg Config) (*Prober, error) {
	if cfg.Usage == nil {
		return nil, errors.New("probe: Usage is required")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	for name, value := range map[string]string{
		"HostMountinfo": cfg.HostMountinfo, "Sys": cfg.Sys, "Dev": cfg.Dev,
	} {
		if !path.IsAbs(value) {
			return nil, fmt.Errorf("probe: %s must be an absolute path, not %q", name, value)
		}
	}
	p := &Prober{
		cfg:        cfg,
		parallel:   parallel,
		scanning:   make(chan struct{}, 1),
		workers:    workers{busy: make(map[string]*job)},
		identities: identity.Host{Sys: cfg.Sys, Machine: cfg.Machine},
		known:      make(map[inode]disk.Identity),
		statfs:     unix.Statfs,
		newWatcher: fsnotify.NewWatcher,
	}
	p.SetTimeout(cfg.Timeout)
	return p, nil
}

// SetTimeout changes the timeout of later examinations.
func (p *Prober) SetTimeout(timeout time.Duration) { p.timeout.Store(int64(timeout)) }

// workers has the examinations in progress, at most one for a path.
type workers struct {
	mu   sync.Mutex
	busy map[string]*job
}

// job is one examination. stuck is set after a caller's timeout.
type job struct {
	done  chan struct{}
	stuck bool
}

// callWithin examines a path in its own goroutine and waits for the result until p's timeout. It
// first waits for an examination of the same path in progress, unless that is stuck. call must
// change nothing but its result, which is discarded after a timeout.
func callWithin[T any](ctx context.Context, p *Prober, path string, call func() T) (T, *disk.Problem) {
	var none T
	w, timeout := &p.workers, time.Duration(p.timeout.Load())
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	mine, problem := w.begin(ctx, path)
	if problem != nil {
		return none, problem
	}
	answer := make(chan T, 1)
	go func() {
		defer w.end(path, mine)
		answer <- call()
	}()
	select {
	case <-mine.done:
		return <-answer, nil
	case <-ctx.Done():
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return none, disk.Problemf(disk.TimedOut, "%s was not waited for: %v", path, ctx.Err())
		}
		w.mu.Lock()
		mine.stuck = true
		w.mu.Unlock()
		return none, disk.Problemf(disk.TimedOut, "%s did not answer within %v: the disk or its file system may be failing", path, timeout)
	}
}

// ReadWithin calls read, which reads the device at a path, and waits for it until p's timeout.
func (p *Prober) ReadWithin(ctx context.Context, path string, read func() (disk.Superblock, error)) disk.Superblock {
	type result struct {
		found disk.Superblock
		err   error
	}
	got, problem := callWithin(ctx, p, "device "+path, func() result {
		found, err := read()
		return result{found, err}
	})
	if known, ok := errors.AsType[*disk.Problem](got.err); ok {
		problem = known
	} else if got.err != nil {
		problem = disk.Problemf(reasonOf(got.err), "%s cannot be read: %v", path, got.err)
	}
	if problem != nil {
		return disk.Superblock{Problem: problem}
	}
	return got.found
}

// begin starts an examination, after others of the same path.
func (w *workers) begin(ctx context.Context, path string) (*job, *disk.Problem) {
	for {
		w.mu.Lock()
		other, ok := w.busy[path]
		if !ok {
			mine := &job{done: make(chan struct{})}
			w.busy[path] = mine
			w.mu.Unlock()
			return mine, nil
		}
		stuck := other.stuck
		w.mu.Unlock()
		if stuck {
			return nil, disk.Problemf(disk.TimedOut, "%s has not answered an earlier scan: the disk or its file system may be failing", path)
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, disk.Problemf(disk.TimedOut, "%s did not answer in time", path)
		}
	}
}

func (w *workers) end(path string, j *job) {
	w.mu.Lock()
	delete(w.busy, path)
	w.mu.Unlock()
	close(j.done)
}
