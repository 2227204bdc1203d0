// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Watch is an ear on the discovery directories and on the mount tables. Run or Close
// it.
type Watch struct {
	prober  *Prober
	folders []disk.Folder
	inotify *fsnotify.Watcher // nil if the node's limit is reached

	mu    sync.Mutex
	blind map[string]*disk.Problem
}

// Watch begins to listen to the folders. It never fails: what it cannot hear of is in
// Blind, and left to the next scan.
func (p *Prober) Watch(ctx context.Context, folders []disk.Folder) *Watch {
	w := &Watch{prober: p, folders: folders, blind: make(map[string]*disk.Problem)}
	inotify, err := p.newWatcher()
	if err != nil {
		for _, f := range folders {
			w.blind[f.Class] = deaf(f, err)
		}
		return w
	}
	w.inotify = inotify
	w.listen(ctx)
	return w
}

// Blind returns the classes whose directories are not watched, with the reason: the directory
// does not exist, or the node is out of inotify instances or watches. Only a scan observes
// their changes, except mounts. Run retries them at every change. Safe for concurrent use.
func (w *Watch) Blind() map[string]*disk.Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	blind := make(map[string]*disk.Problem, len(w.blind))
	maps.Copy(blind, w.blind)
	return blind
}

// Close ends a Watch that was never Run.
func (w *Watch) Close() {
	if w.inotify != nil {
		_ = w.inotify.Close()
	}
}

// Run calls changed once after it has begun to watch, and then after entries were created or
// removed or something was mounted or unmounted, until ctx ends; then it closes the Watch. Any
// number of changes during a call cause one more call. changed is called by the goroutine that
// called Run. The error means that mounts cannot be watched.
func (w *Watch) Run(ctx context.Context, changed func()) error {
	defer w.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := make(chan struct{}, 1)
	tell := func() {
		select {
		case news <- struct{}{}:
		default: // a call is pending already
		}
	}
	ended := make(chan error, 3)
	var running int
	begin := func(listen func() error) {
		running++
		go func() { ended <- listen() }()
	}
	for _, file := range w.tables() {
		begin(func() error { return mounts.Watch(ctx, file, tell) })
	}
	if w.inotify != nil {
		begin(func() error { return w.hear(ctx, tell) })
	}
	var failed error
	for running > 0 {
		select {
		case err := <-ended:
			running--
			failed = errors.Join(failed, err)
			cancel()
		case <-news:
			if ctx.Err() == nil {
				w.listen(ctx)
				changed()
			}
		}
	}
	return failed
}

func (w *Watch) tables() []string {
	self, host := w.prober.cfg.SelfMountinfo, w.prober.cfg.HostMountinfo
	if self == host {
		return []string{self}
	}
	return []string{self, host}
}

// hear passes on what happens to names in the folders, until ctx ends.
func (w *Watch) hear(ctx context.Context, tell func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-w.inotify.Events:
			if !ok {
				return errors.New("watch folders: inotify was closed")
			}
			if event.Has(fsnotify.Create) || event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
				tell()
			}
		case _, ok := <-w.inotify.Errors:
			if !ok {
				return errors.New("watch folders: inotify was closed")
			}
			tell() // more happened than fits the queue
		}
	}
}

// listen watches the current folders: one may have been created, exchanged, or mounted over
// since the last call.
func (w *Watch) listen(ctx context.Context) {
	if w.inotify == nil {
		return
	}
	// A device that appears or disappears below a link changes nothing in the folder. Without
	// this watch the next scan observes it.
	_ = w.inotify.Add(w.prober.cfg.Dev)
	v, err := w.prober.view()
	for _, f := range w.folders {
		problem := deaf(f, err)
		if err == nil {
			problem = w.listenTo(ctx, v, f)
		}
		w.mu.Lock()
		if problem == nil {
			delete(w.blind, f.Class)
		} else {
			w.blind[f.Class] = problem
		}
		w.mu.Unlock()
	}
}

func (w *Watch) listenTo(ctx context.Context, v *view, f disk.Folder) *disk.Problem {
	failed, problem := ask(ctx, &w.prober.workers, "watch "+f.Path, w.prober.patience(), func() error {
		at, _, err := v.walk("/", f.Path)
		if err != nil {
			return err
		}
		return w.inotify.Add(at)
	})
	if problem != nil {
		return problem
	}
	return deaf(f, failed)
}

// deaf is why a folder is not watched; nil without an error.
func deaf(f disk.Folder, err error) *disk.Problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOSPC):
		err = fmt.Errorf("%w: raise fs.inotify.max_user_instances or max_user_watches", err)
	}
	return disk.Problemf(disk.Unreadable, "changes of %s are found by rescans only: %v", f.HostPath, err)
}
