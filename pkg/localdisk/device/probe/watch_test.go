// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/deadline"
)

// watcher receives the calls of a Watch.
type watcher struct {
	t     *testing.T
	calls chan struct{}
}

// watch runs Watch until the test ends.
func watch(t *testing.T, p *Prober, folders ...disk.Folder) *watcher {
	t.Helper()
	l := &watcher{t: t, calls: make(chan struct{}, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Watch(ctx, folders, func() { l.calls <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch: %v", err)
		}
	})
	return l
}

// until waits for a call after which holds returns true.
func (l *watcher) until(what string, holds func() bool) {
	l.t.Helper()
	for {
		select {
		case <-l.calls:
			if holds() {
				return
			}
		case <-time.After(deadline.Wait()):
			l.t.Fatalf("no call after this: %s", what)
		}
	}
}

func (l *watcher) drain() {
	for len(l.calls) > 0 {
		<-l.calls
	}
}

func exists(path string) func() bool {
	return func() bool { _, err := os.Lstat(path); return err == nil }
}

func TestWatch(t *testing.T) {
	f := newFolder(t, "a")
	later := disk.Folder{Class: "later", Path: filepath.Join(f.Path, "later"), HostPath: filepath.Join(f.Path, "later")}
	p := newProber(t)
	l := watch(t, p, f, later)
	l.until("the start", func() bool { return true })

	entry := filepath.Join(f.Path, "disk")
	link(t, "/dev/null", entry)
	l.until("an entry appears", exists(entry))
	must(t, os.Rename(entry, entry+"2"))
	l.until("it is renamed", exists(entry+"2"))
	must(t, os.Remove(entry+"2"))
	l.until("it is removed", func() bool { return !exists(entry + "2")() })

	point := filepath.Join(f.Path, "mnt")
	mounted := func() bool {
		v, err := p.view()
		must(t, err)
		_, ok := v.self.At(point)
		return ok
	}
	mount(t, point, "-t", "tmpfs", "none")
	l.until("something is mounted", mounted)
	unmount(t, point)
	l.until("it is unmounted", func() bool { return !mounted() })

	must(t, os.Mkdir(later.Path, 0o755))
	l.until("the other folder is created", exists(later.Path))
	link(t, "/dev/null", later.Path, "x")
	l.until("an entry appears in it", exists(filepath.Join(later.Path, "x")))

	mount(t, later.Path, "-t", "tmpfs", "none")
	l.until("it is mounted over", func() bool { return !exists(filepath.Join(later.Path, "x"))() })
	l.drain()
	link(t, "/dev/null", later.Path, "y")
	l.until("an entry appears in what is mounted", exists(filepath.Join(later.Path, "y")))
}

func TestWatchWithoutInotify(t *testing.T) {
	f := newFolder(t, "a")
	p := newProber(t)
	p.newWatcher = func() (*fsnotify.Watcher, error) { return nil, unix.EMFILE }
	l := watch(t, p, f)
	l.until("the start", func() bool { return true })
	mount(t, filepath.Join(f.Path, "mnt"), "-t", "tmpfs", "none")
	l.until("something is mounted", exists(filepath.Join(f.Path, "mnt")))
}

func TestUnwatchableMounts(t *testing.T) {
	p := newProber(t, func(c *Config) { c.HostMountinfo = "/proc/no/such/mountinfo" })
	if err := p.Watch(t.Context(), nil, func() {}); err == nil {
		t.Error("no error")
	}
	got := p.Scan(t.Context(), disk.Scan{Folders: []disk.Folder{{Class: "a", Path: "/", HostPath: "/"}}})
	if got.Trouble["a"] == nil {
		t.Errorf("a scan without the host's mounts: %+v", got)
	}
}
