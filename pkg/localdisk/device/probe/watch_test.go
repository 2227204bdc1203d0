// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/deadline"
)

// listener runs a Watch until the test ends.
type listener struct {
	*Watch
	t     *testing.T
	heard chan struct{}
}

func listenTo(t *testing.T, p *Prober, folders ...disk.Folder) *listener {
	t.Helper()
	l := &listener{Watch: p.Watch(t.Context(), folders), t: t, heard: make(chan struct{}, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, func() { l.heard <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return l
}

// until waits for calls until what the watcher would find holds.
func (l *listener) until(what string, holds func() bool) {
	l.t.Helper()
	for {
		select {
		case <-l.heard:
			if holds() {
				return
			}
		case <-time.After(deadline.Wait()):
			l.t.Fatalf("nothing was heard of this: %s", what)
		}
	}
}

func (l *listener) drain() {
	for len(l.heard) > 0 {
		<-l.heard
	}
}

func exists(path string) func() bool {
	return func() bool { _, err := os.Lstat(path); return err == nil }
}

func TestChangesAreHeardOf(t *testing.T) {
	f := newFolder(t, "a")
	later := disk.Folder{Class: "later", Path: filepath.Join(f.Path, "later"), HostPath: filepath.Join(f.Path, "later")}
	p := newProber(t)
	l := listenTo(t, p, f, later)
	l.until("the beginning", func() bool { return true })
	if blind := l.Blind(); blind["later"] == nil || len(blind) != 1 {
		t.Errorf("blind to %v", blind)
	}

	entry := filepath.Join(f.Path, "disk")
	link(t, "/dev/null", entry)
	l.until("an entry appears", exists(entry))
	must(t, os.Rename(entry, entry+"2"))
	l.until("it is renamed", exists(entry+"2"))
	must(t, os.Remove(entry+"2"))
	l.until("it goes", func() bool { return !exists(entry + "2")() })

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
	l.until("the other folder is made", func() bool { return len(l.Blind()) == 0 })
	link(t, "/dev/null", later.Path, "x")
	l.until("an entry appears in it", exists(filepath.Join(later.Path, "x")))

	mount(t, later.Path, "-t", "tmpfs", "none")
	l.until("it is mounted over", func() bool { return !exists(filepath.Join(later.Path, "x"))() })
	l.drain()
	link(t, "/dev/null", later.Path, "y")
	l.until("an entry appears in what is mounted", exists(filepath.Join(later.Path, "y")))
}

func TestANodeWithoutInotifyIsScanned(t *testing.T) {
	f := newFolder(t, "a")
	p := newProber(t)
	p.newWatcher = func() (*fsnotify.Watcher, error) { return nil, unix.EMFILE }
	l := listenTo(t, p, f)
	if problem := l.Blind()["a"]; problem == nil || !strings.Contains(problem.Message, "max_user_instances") {
		t.Errorf("blind: %v", problem)
	}
	l.until("the beginning", func() bool { return true })
	mount(t, filepath.Join(f.Path, "mnt"), "-t", "tmpfs", "none")
	l.until("mounts are heard of all the same", exists(filepath.Join(f.Path, "mnt")))
}

func TestAWatchThatIsNotRunIsClosed(t *testing.T) {
	newProber(t).Watch(t.Context(), []disk.Folder{newFolder(t, "a")}).Close() // goleak tells
}

func TestMountsThatCannotBeWatched(t *testing.T) {
	p := newProber(t, func(c *Config) { c.HostMountinfo = "/proc/no/such/mountinfo" })
	if err := p.Watch(t.Context(), nil).Run(t.Context(), func() {}); err == nil {
		t.Error("no error")
	}
	got := p.Scan(t.Context(), disk.Scan{Folders: []disk.Folder{{Class: "a", Path: "/", HostPath: "/"}}})
	if got.Trouble["a"] == nil {
		t.Errorf("a scan without the host's mounts: %+v", got)
	}
}
