// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskfaults_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/integration/node"
)

// point is a moment at which a provisioner is killed.
type point struct {
	name string
	// arm waits for the point, and calls kill when it is reached. stop ends that; kill
	// is not called after it returns.
	arm func(w *harness, p *proxy, kill func()) (stop func())
}

// points are all deterministic points: before and after each request, at
// each write of a record, and between removed files.
func points() []point {
	var all []point
	for _, request := range []string{createVolume, deleteVolume, releaseVolume, getVolume, writeReport} {
		all = append(all, atRequest(request, 1, true), atRequest(request, 1, false))
	}
	all = append(all, atRequest(updateVolume, 1, true), atRequest(updateVolume, 1, false))
	for _, state := range []disk.State{disk.Published, disk.Cleaning, disk.Clean} {
		all = append(all, atRecord(string(state), func(r *disk.Record) bool { return r.State == state && r.Step == "" }))
	}
	all = append(all,
		atRecord("with a step", func(r *disk.Record) bool { return r.State == disk.Cleaning && r.Step != "" }),
		atUnfinishedRecord(),
	)
	for _, n := range []int{1, 10, 25} {
		all = append(all, atRemoval(n))
	}
	return all
}

// atRandom is a point at a random time.
func atRandom(random *rand.Rand) point {
	switch random.IntN(4) {
	case 0:
		requests := []string{createVolume, deleteVolume, releaseVolume, getVolume, writeReport, writeEvent}
		return atRequest(requests[random.IntN(len(requests))], 1+random.IntN(4), random.IntN(2) == 0)
	case 1:
		return within(atRecord("Cleaning", func(r *disk.Record) bool { return r.State == disk.Cleaning }), time.Duration(random.IntN(80))*time.Millisecond)
	case 2:
		return atRemoval(1 + random.IntN(60))
	default:
		return atTime(time.Duration(50+random.IntN(1500)) * time.Millisecond)
	}
}

// atTime is a point at this time after the start of the provisioner.
func atTime(after time.Duration) point {
	return point{"at " + after.String(), func(_ *harness, _ *proxy, kill func()) func() {
		return timer(after, kill)
	}}
}

// timer calls do once, later, unless it is stopped.
func timer(after time.Duration, do func()) (stop func()) {
	done := make(chan struct{})
	t := time.AfterFunc(after, func() { defer close(done); do() })
	return func() {
		if !t.Stop() {
			<-done
		}
	}
}

// within is a point at this time after another point.
func within(p point, after time.Duration) point {
	return point{fmt.Sprintf("%s after %s", after, p.name), func(w *harness, tap *proxy, kill func()) func() {
		stopLater := func() {}
		stop := p.arm(w, tap, func() { stopLater = timer(after, kill) })
		return func() { stop(); stopLater() }
	}}
}

// atRequest is a point right before, or right after, the provisioner's nth request of a kind.
func atRequest(request string, n int, before bool) point {
	name := fmt.Sprintf("after request %d to %s", n, request)
	if before {
		name = fmt.Sprintf("before request %d to %s", n, request)
	}
	return point{name, func(_ *harness, p *proxy, kill func()) func() {
		left := make(chan struct{}, n) // one for each request that may pass, and one for the last
		for range n {
			left <- struct{}{}
		}
		hook := func(what string) error {
			if what != request {
				return nil
			}
			select {
			case <-left:
			default:
				return nil
			}
			if len(left) == 0 {
				kill()
			}
			return nil
		}
		if before {
			p.on(hook, nil)
		} else {
			p.on(nil, hook)
		}
		return func() { p.on(nil, nil) }
	}}
}

// atRecord is a point at which the provisioner has written a record that is accepts.
func atRecord(name string, is func(*disk.Record) bool) point {
	return point{"at a record " + name, func(w *harness, _ *proxy, kill func()) func() {
		return onRecordThat(w.Node, is, kill)
	}}
}

// onRecord calls do when the provisioner has written a first record in a state.
func onRecord(n *node.Node, state disk.State, do func()) (stop func()) {
	return onRecordThat(n, func(r *disk.Record) bool { return r.State == state }, do)
}

func onRecordThat(n *node.Node, is func(*disk.Record) bool, do func()) (stop func()) {
	return onFiles(n, n.Path("state", "disks"), func(event fsnotify.Event) bool {
		if strings.HasSuffix(event.Name, ".new") || !event.Has(fsnotify.Create) {
			return false
		}
		var file struct{ Record disk.Record }
		text, err := os.ReadFile(event.Name)
		return err == nil && json.Unmarshal(text, &file) == nil && is(&file.Record)
	}, do)
}

// atUnfinishedRecord is a point while the provisioner writes a record.
func atUnfinishedRecord() point {
	return point{"during the writing of a record", func(w *harness, _ *proxy, kill func()) func() {
		return onFiles(w.Node, w.Path("state", "disks"), func(event fsnotify.Event) bool {
			return strings.HasSuffix(event.Name, ".new") && event.Has(fsnotify.Create)
		}, kill)
	}}
}

// atRemoval is a point at which the provisioner has removed this number of a tenant's files.
func atRemoval(n int) point {
	return point{fmt.Sprintf("at removal %d", n), func(w *harness, _ *proxy, kill func()) func() {
		left := n
		return onFiles(w.Node, w.PathOf(w.Files, "tree"), func(event fsnotify.Event) bool {
			if event.Has(fsnotify.Remove) {
				left--
			}
			return left == 0
		}, kill)
	}}
}

// onFiles calls kill at the first event in a folder that is accepts.
func onFiles(n *node.Node, folder string, is func(fsnotify.Event) bool, kill func()) (stop func()) {
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(folder)
	}
	if err != nil {
		n.Env.T.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.Events {
			if is(event) {
				kill()
				return
			}
		}
	}()
	return func() { _ = watcher.Close(); <-done }
}
