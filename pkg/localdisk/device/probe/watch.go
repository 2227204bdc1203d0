// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sync/errgroup"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Watch calls changed once after it has begun to watch, and then after entries of the folders
// were created or removed or something was mounted or unmounted, until ctx ends. Any number of
// changes during a call cause one more call. changed is called by the goroutine that called
// Watch. The error means that mounts cannot be watched.
//
// A folder cannot be watched while it does not exist or the node is out of inotify instances
// (fs.inotify.max_user_instances) or watches. Then only a scan finds changes in it, except
// mounts. Watch tries such folders again at every change.
func (p *Prober) Watch(ctx context.Context, folders []disk.Folder, changed func()) error {
	group, ctx := errgroup.WithContext(ctx)
	pending := make(chan struct{}, 1)
	notify := func() {
		select {
		case pending <- struct{}{}:
		default: // a call is pending already
		}
	}
	inotify, err := p.newWatcher()
	if err == nil {
		defer func() { _ = inotify.Close() }()
		p.watchFolders(ctx, inotify, folders)
		group.Go(func() error { return forward(ctx, inotify, notify) })
	}
	group.Go(func() error { return mounts.Watch(ctx, mounts.Self, notify) })
	if p.cfg.HostMountinfo != mounts.Self {
		group.Go(func() error { return mounts.Watch(ctx, p.cfg.HostMountinfo, notify) })
	}
	for {
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-pending:
			if ctx.Err() == nil {
				p.watchFolders(ctx, inotify, folders)
				changed()
			}
		}
	}
}

// forward calls notify for each created, removed or renamed entry, until ctx ends.
func forward(ctx context.Context, inotify *fsnotify.Watcher, notify func()) error {
	closed := errors.New("watch folders: inotify was closed")
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-inotify.Events:
			if !ok {
				return closed
			}
			if event.Has(fsnotify.Create) || event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
				notify()
			}
		case _, ok := <-inotify.Errors:
			if !ok {
				return closed
			}
			notify() // the queue overflowed
		}
	}
}

// watchFolders watches the current folders: one may have been created, exchanged, or mounted
// over since the last call. inotify may be nil.
func (p *Prober) watchFolders(ctx context.Context, inotify *fsnotify.Watcher, folders []disk.Folder) {
	if inotify == nil {
		return
	}
	// A device that appears or disappears below a link changes nothing in the folder. Without
	// this watch the next scan observes it.
	_ = inotify.Add(p.cfg.Dev)
	v, err := p.view()
	if err != nil {
		return
	}
	for _, f := range folders {
		_, _ = callWithin(ctx, p, "watch "+f.Path, func() error {
			at, _, err := v.walk("/", f.Path)
			if err != nil {
				return err
			}
			return inotify.Add(at)
		})
	}
}
