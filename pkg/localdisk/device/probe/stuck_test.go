// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/deadline"
)

// short is long enough for every entry that answers.
const short = 2 * time.Second

// waitIdle waits until no examination is in progress.
func waitIdle(t *testing.T, p *Prober) {
	t.Helper()
	for {
		p.workers.mu.Lock()
		var some *job
		for _, j := range p.workers.busy {
			some = j
		}
		p.workers.mu.Unlock()
		if some == nil {
			return
		}
		select {
		case <-some.done:
		case <-time.After(deadline.Wait()):
			t.Fatal("an examination did not end")
		}
	}
}

func TestHungEntryDoesNotBlockOthers(t *testing.T) {
	f := newFolder(t, "a")
	stuck := filepath.Join(f.Path, "stuck")
	mount(t, stuck, "-t", "tmpfs", "-o", "size=1M", "none")
	mount(t, filepath.Join(f.Path, "well"), "-t", "tmpfs", "-o", "size=1M", "none")
	for i := range 20 {
		link(t, "/dev/null", f.Path, fmt.Sprint("other", i))
	}
	p := newProber(t, func(c *Config) { c.Timeout = time.Hour })
	p.parallel = 1
	p.SetTimeout(short)
	release := make(chan struct{})
	var accessed atomic.Int32
	p.statfs = func(path string, st *unix.Statfs_t) error {
		if path == stuck {
			accessed.Add(1)
			<-release
		}
		return unix.Statfs(path, st)
	}
	ask := disk.Scan{Folders: []disk.Folder{f}}
	for range 3 {
		facts := scan(t, p, ask)
		if reason(facts["stuck"]) != disk.TimedOut || facts["stuck"].HostPath != stuck || facts["well"].Problem != nil || len(facts) != 22 {
			t.Fatalf("%+v", facts)
		}
	}
	if got := accessed.Load(); got != 1 {
		t.Errorf("it was accessed %d times while it hung", got)
	}
	_, err := p.Identify(t.Context(), disk.Fact{Path: stuck, HostPath: stuck, Kind: disk.Mount})
	if problem, ok := errors.AsType[*disk.Problem](err); !ok || problem.Reason != disk.TimedOut {
		t.Errorf("Identify: %v", err)
	}
	close(release)
	waitIdle(t, p)
	if facts := scan(t, p, ask); facts["stuck"].Problem != nil {
		t.Errorf("after it answered: %v", facts["stuck"].Problem)
	}
}

func TestCallWithinWaitsForTheSamePath(t *testing.T) {
	p := &Prober{workers: workers{busy: make(map[string]*job)}}
	p.SetTimeout(time.Minute)
	begun, release := make(chan struct{}), make(chan struct{})
	first := make(chan int)
	go func() {
		n, _ := callWithin(t.Context(), p, "x", func() int { close(begun); <-release; return 1 })
		first <- n
	}()
	<-begun
	second := make(chan int)
	go func() {
		n, _ := callWithin(t.Context(), p, "x", func() int { return 2 })
		second <- n
	}()
	close(release)
	if a, b := <-first, <-second; a != 1 || b != 2 {
		t.Errorf("answers are %d and %d", a, b)
	}
}

func TestCancelledScan(t *testing.T) {
	f := newFolder(t, "a")
	must(t, os.Mkdir(filepath.Join(f.Path, "x"), 0o755))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := newProber(t).Scan(ctx, disk.Scan{Folders: []disk.Folder{f}})
	if len(got.Facts) != 0 || got.Trouble["a"] == nil {
		t.Errorf("%+v", got)
	}
}

// mountHung mounts a FUSE file system whose server never answers. hangUp stops the server, which
// ends all requests.
func mountHung(t *testing.T, fsType, source, point string) (hangUp func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs FUSE: %v", err)
	}
	hungUp := false
	hangUp = func() {
		if !hungUp {
			hungUp = true
			_ = unix.Close(fd)
		}
	}
	t.Cleanup(hangUp)
	must(t, os.Mkdir(point, 0o755))
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if fsType == "fuseblk" {
		options += ",blksize=512"
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	if err := unix.Mount(source, point, fsType, 0, options); err != nil {
		t.Skipf("mount %s: %v", fsType, err)
	}
	return hangUp
}

func TestNetworkFileSystemIsNotAccessed(t *testing.T) {
	f := newFolder(t, "a")
	mountHung(t, "fuse.sshfs", "host:/export", filepath.Join(f.Path, "remote"))
	link(t, "remote/disk", f.Path, "into")
	link(t, newDisk(t), f.Path, "disk")
	p := newProber(t) // with a timeout that the test would not live to see
	facts := scan(t, p, disk.Scan{Folders: []disk.Folder{f}})
	if reason(facts["remote"]) != disk.UnsupportedFilesystem || reason(facts["into"]) != disk.OutsideDirectory || facts["disk"].Problem != nil {
		t.Errorf("%+v", facts)
	}
	below := disk.Folder{Class: "b", Path: filepath.Join(f.Path, "remote"), HostPath: "/remote"}
	if got := p.Scan(t.Context(), disk.Scan{Folders: []disk.Folder{below}}); got.Trouble["b"] == nil || got.Trouble["b"].Reason == disk.TimedOut {
		t.Errorf("a discovery directory on it: %+v", got)
	}
	if len(p.workers.busy) > 0 {
		t.Errorf("a worker is still busy: %v", p.workers.busy)
	}
}

func TestHungFUSEServer(t *testing.T) {
	f := newFolder(t, "a")
	hangUp := mountHung(t, "fuseblk", newDisk(t), filepath.Join(f.Path, "ntfs"))
	link(t, newDisk(t), f.Path, "disk")
	p := newProber(t, func(c *Config) { c.Timeout = short })
	var facts map[string]disk.Fact
	threads := 0
	const scans = 100
	for i := range scans {
		facts = scan(t, p, disk.Scan{Folders: []disk.Folder{f}})
		if reason(facts["ntfs"]) != disk.TimedOut || facts["disk"].Problem != nil {
			t.Fatalf("%+v", facts)
		}
		if i == 0 {
			threads = runtime.NumGoroutine()
		}
	}
	if n := runtime.NumGoroutine(); n > threads+scans/2 { // those that have just answered may be about to end
		t.Errorf("%d goroutines after the first scan, %d after the last", threads, n)
	}
	hangUp()
	waitIdle(t, p)
	facts = scan(t, p, disk.Scan{Folders: []disk.Folder{f}})
	if r := reason(facts["ntfs"]); r != disk.IOError {
		t.Errorf("once its server has died: %q", r)
	}
}

func TestHungDiscoveryDirectory(t *testing.T) {
	f, well := newFolder(t, "a"), newFolder(t, "b")
	path := filepath.Join(f.Path, "ntfs")
	hangUp := mountHung(t, "fuseblk", newDisk(t), path)
	link(t, newDisk(t), well.Path, "disk")
	p := newProber(t, func(c *Config) { c.Timeout = short })
	folders := []disk.Folder{{Class: "a", Path: path, HostPath: path}, well}
	for range 2 {
		got := p.Scan(t.Context(), disk.Scan{Folders: folders, Known: []disk.Known{{Key: disk.Key{Class: "a", Name: "x"}}}})
		if got.Trouble["a"] == nil || got.Trouble["a"].Reason != disk.TimedOut || got.Trouble["b"] != nil {
			t.Fatalf("trouble: %v", got.Trouble)
		}
		if fact := got.Facts[disk.Key{Class: "b", Name: "disk"}]; len(got.Facts) != 1 || fact.Problem != nil {
			t.Fatalf("facts: %+v", got.Facts)
		}
	}
	hangUp()
	waitIdle(t, p)
}
