// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskfaults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// kills is how often TestKilled kills the provisioner of each of its two nodes.
var kills = campaign.Scale(30, 300)

const (
	// pointLimit is how long a provisioner runs if its kill point is not reached.
	pointLimit = 4 * time.Second
	// killFactor is the maximum factor on the number of kills, for points that were not reached by
	// chance or on a slow machine.
	killFactor = 4
)

// TestKilled: provisioners are killed at each step of a volume's life and at random, while
// tenants claim, fill and release disks of every kind and an administrator deletes
// volumes and removes finalizers. Whenever a volume is Available its disk is clean,
// no disk is published twice, the data of a claim is unchanged, and no link leads to another
// device than its volume's. In the end all disks are published again, and no other links exist.
func TestKilled(t *testing.T) {
	t.Parallel()
	first := campaign.Begin(t)
	for i, cleaner := range [][]string{{"dd-zero", "3"}, {"zero"}} {
		t.Run(cleaner[0], func(t *testing.T) {
			t.Parallel()
			killed(t, first+uint64(i), cleaner)
		})
	}
}

func killed(t *testing.T, seed uint64, cleaner []string) {
	random := rand.New(rand.NewPCG(seed, 0))
	w := newHarness(node.New(t, fixture.New(t), "a"))
	w.Set(w.Blocks, "blockCleanerCommand", cleaner)
	p := newProxy(w.Node)
	addDisks(w, seed)
	w.watch()
	ctx, cancel := context.WithCancel(t.Context())
	meddler := hand{harness: w, random: rand.New(rand.NewPCG(seed, 1))}
	w.group.Go(func() { meddler.meddle(ctx) })
	defer cancel()
	relieving, relieved := context.WithCancel(t.Context())
	w.group.Go(func() { w.relieve(relieving) })
	defer relieved()
	k := killer{harness: w, proxy: p, hand: hand{harness: w, random: random}, left: points()}
	for n := 0; n < kills || n < killFactor*kills && len(k.left) > 0; n++ {
		k.kill(ctx)
		if w.isBroken() {
			break
		}
	}
	cancel()
	if !w.isBroken() {
		k.finish()
	}
	w.report()
}

// addDisks gives the node disks of every kind.
func addDisks(w *harness, seed uint64) {
	path := w.Mount("tree", "24M")
	w.add(newTree(w.Node, path), seed, path)
	path = w.Tmpfs("memory", "8M")
	w.add(newTree(w.Node, path), seed, path)
	for i := range 2 {
		name := fmt.Sprintf("device%d", i)
		node := w.Attach(w.Image(name+".files", "24M"))
		w.Link(node, w.PathOf(w.Files, name))
		w.add(&device{path: node}, seed, w.PathOf(w.Files, name))
		name = fmt.Sprintf("block%d", i)
		w.add(&device{path: w.Device(name, "48M")}, seed, w.PathOf(w.Blocks, name))
	}
	both := w.Device("both", "24M") // a slot of either class
	w.Link(both, w.PathOf(w.Files, "both"))
	w.add(&device{path: both}, seed, w.PathOf(w.Blocks, "both"), w.PathOf(w.Files, "both"))
}

// killer starts provisioners and kills them.
type killer struct {
	harness *harness
	proxy   *proxy
	hand    hand
	left    []point // that no provisioner was killed at yet
	hits    int
}

// kill starts a provisioner, and kills it at a point.
func (k *killer) kill(ctx context.Context) {
	w := k.harness
	next, exact := k.next()
	w.Start()
	process := w.Process()
	var hit atomic.Bool
	stop := next.arm(w, k.proxy, func() {
		hit.Store(true)
		if err := process.Kill(); err != nil {
			w.violated("kill the provisioner: %v", err)
		}
	})
	limit := time.NewTimer(pointLimit) // not a deadline: the next moment is tried
	defer limit.Stop()
	select {
	case <-process.Done():
	case <-limit.C:
	case <-w.broken:
	}
	stop()
	if !hit.Load() {
		select {
		case <-process.Done():
			w.violated("the provisioner ended by itself: %v", process.Err())
		default:
		}
	}
	w.Kill()
	k.count(next, exact, hit.Load())
	if k.hand.random.IntN(3) == 0 {
		k.hand.once(ctx)
	}
	w.notifyAll()
}

// next is the next point: every other one is a random one.
func (k *killer) next() (p point, exact bool) {
	if len(k.left) == 0 || k.harness.killed()%3 == 2 {
		return atRandom(k.hand.random), false
	}
	p, k.left = k.left[0], k.left[1:]
	return p, true
}

// count records the result. A point that was missed is repeated.
func (k *killer) count(p point, exact, hit bool) {
	w := k.harness
	w.mu.Lock()
	w.kills++
	kills := w.kills
	w.mu.Unlock()
	if hit {
		k.hits++
	} else if exact {
		k.left = append(k.left, p)
	}
	w.logf("kill %d %s (hit: %t)", kills, p.name, hit)
}

// finish stops killing the provisioner, and waits until all disks are published.
func (k *killer) finish() {
	w, t := k.harness, k.harness.Env.T
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.Start()
	w.notifyAll()
	for _, d := range w.disks {
		w.Env.Wait("the disk at "+d.paths[0]+" to be free", func() bool { return w.isBroken() || w.free(d) })
		d.acting.Lock()
		t.Logf("%s: %d times used and released, %d checks", d, d.cycles, d.checks)
		if d.cycles == 0 {
			t.Errorf("%s was never used and released", d)
		}
		if dirt, err := d.medium.dirt(w.modeOf(d)); err != nil || dirt != "" {
			w.violated("%s: in the end the disk holds %s: %v", d, dirt, err)
		}
		d.acting.Unlock()
	}
	w.checkLinks()
	var missed []string
	for _, p := range k.left {
		missed = append(missed, p.name)
	}
	t.Logf("%d kills, %d of them at their point", w.killed(), k.hits)
	if len(missed) > 0 {
		t.Errorf("the provisioner was never killed %q", missed)
	}
}

// checkLinks checks, when all disks are free, that each device has one link and that no other volume
// has one.
func (w *harness) checkLinks() {
	w.WaitReport("that shows all links", func(r *stowage.LocalDiskReport) bool {
		return !slices.ContainsFunc(r.Status.Entries, func(e stowage.Entry) bool {
			return e.State != stowage.EntrySkipped && strings.HasPrefix(e.Identity, "weak:") && e.Link != stowage.LinkPresent
		})
	})
	var want, got []string
	for _, d := range w.disks {
		if d.device() != "" {
			want = append(want, d.device())
		}
	}
	for _, class := range []string{w.Files, w.Blocks} {
		links, _ := filepath.Glob(filepath.Join(disk.LinkFolder, class, "*")) // the pattern is a good one
		for _, link := range links {
			target, err := os.Readlink(link)
			if err != nil {
				w.violated("read the link %s: %v", link, err)
			}
			got = append(got, target)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.violated("the targets of all links: %s", diff)
	}
}

// free reports whether the disk has one volume, which is Available and has no claim.
func (w *harness) free(d *tenant) bool {
	found := slices.DeleteFunc(w.Env.AllPVs(), func(v *corev1.PersistentVolume) bool { return v.Spec.Local == nil || !d.has(localpv.PathOf(v)) })
	return len(found) == 1 && found[0].Status.Phase == corev1.VolumeAvailable && found[0].Spec.ClaimRef == nil && found[0].DeletionTimestamp == nil
}

// modeOf is the mode of the disk's volume.
func (w *harness) modeOf(d *tenant) corev1.PersistentVolumeMode {
	for _, v := range w.Env.AllPVs() {
		if v.Spec.Local != nil && d.has(localpv.PathOf(v)) {
			return *v.Spec.VolumeMode
		}
	}
	return corev1.PersistentVolumeBlock
}

func (w *harness) isBroken() bool {
	select {
	case <-w.broken:
		return true
	default:
		return false
	}
}
