// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// answers are what was found out about a disk while its path is decided on. They are not
// kept for another decision: by then the disk may have been emptied or written to.
type answers struct {
	identity disk.Identity
	decide.Answers
	// tombstone has precedence over this node's record of the disk; nil for none.
	tombstone *stowage.Tombstone
}

// isQuestion reports whether an action finds something out and changes nothing.
func isQuestion(action decide.Action) bool {
	switch action {
	case decide.AskNodes, decide.FindUsers, decide.Inspect, decide.ReadSuperblock:
		return true
	default:
		return false
	}
}

// answer answers a question, in g.known.
func (p *Provisioner) answer(ctx context.Context, g *gathered, question decide.Action) error {
	switch question {
	case decide.AskNodes:
		return p.askNodes(ctx, g)
	case decide.FindUsers:
		return p.findUsers(ctx, g)
	case decide.ReadSuperblock: // one that cannot be read is an answer too
		found, err := p.superblockOf(ctx, g)
		if err != nil {
			found = disk.Superblock{Problem: asProblem(err)}
		}
		g.known.Superblock = &found
		return nil
	default:
		return p.inspect(ctx, g)
	}
}

// callWithin reads a disk in a goroutine, so that a disk that hangs does not hold up a worker.
// Without an answer in time the error is a *disk.Problem, TimedOut. The goroutine
// then continues, and the disk is not read again before it has returned.
func callWithin[T any](ctx context.Context, p *Provisioner, path string, timeout time.Duration, question func(context.Context) (T, error)) (T, error) {
	var none T
	late := disk.Problemf(disk.TimedOut, "the disk at %s has not answered for %s", path, timeout)
	busy := false
	p.paths.update(path, func(s *pathState) { busy, s.asking = s.asking, true })
	if busy {
		return none, late
	}
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	go func() {
		value, err := question(ctx)
		p.paths.update(path, func(s *pathState) { s.asking = false })
		done <- answer{value, err}
	}()
	select {
	case got := <-done:
		return got.value, got.err
	case <-ctx.Done():
		return none, late
	}
}

// asProblem returns why a question has no answer.
func asProblem(err error) *disk.Problem {
	if problem, ok := errors.AsType[*disk.Problem](err); ok {
		return problem
	}
	return disk.Problemf(disk.Unreadable, "%v", err)
}

// findUsers finds out who uses the disk. An error is no answer.
func (p *Provisioner) findUsers(ctx context.Context, g *gathered) error {
	users, err := callWithin(ctx, p, g.Path, g.conf.ProbeTimeout.Duration, func(ctx context.Context) ([]disk.User, error) {
		return p.Inspector.Users(ctx, *g.Fact, g.VolumeName())
	})
	if err != nil {
		return fmt.Errorf("find out who uses %s: %w", g.Path, err)
	}
	g.known.Users, g.known.UsersKnown = users, true
	return nil
}

// inspect finds out whether the disk holds data.
func (p *Provisioner) inspect(ctx context.Context, g *gathered) error {
	proof, running := p.proofs.Result(g.Path, g.Fact.Identity)
	if running { // the proof reads all of the device
		g.known.Content = disk.ContentSampled
		return nil
	}
	known, err := callWithin(ctx, p, g.Path, g.conf.ProbeTimeout.Duration, func(ctx context.Context) (answers, error) {
		known := g.known
		var err error
		if known.Content, known.Found, err = p.contentOfMade(ctx, g); err != nil || known.Content != disk.ContentUnknown {
			return known, err
		}
		if mode, compared := g.AsPublished(); compared {
			known.Content, known.Found, err = p.Inspector.Cleaned(ctx, *g.Fact, mode)
			return known, err
		}
		suspect := int64(-1)
		if proof.Found {
			suspect = proof.Done
		}
		known.Content, known.Found, err = p.Inspector.Inspect(ctx, *g.Fact, suspect)
		if err == nil && known.Content == disk.ContentSampled && proof.Complete() {
			known.Content, err = p.proofs.Verify(ctx, *g.Fact, proof)
		}
		return known, err
	})
	switch {
	case err != nil:
		return fmt.Errorf("inspect %s: %w", g.Path, err)
	case known.Content == disk.ContentUnknown:
		return fmt.Errorf("inspect %s: no answer", g.Path)
	}
	g.known = known
	return nil
}

// contentOfMade returns whether there is data in the file system that the provisioner has made on
// the disk, and to which no claim has written as far as is recorded. It is disk.ContentUnknown if
// there is no such file system, and disk.ContentNone if mkfs was interrupted.
func (p *Provisioner) contentOfMade(ctx context.Context, g *gathered) (disk.Content, string, error) {
	made := g.Made()
	mounted := g.MountedHere || g.Volume != nil && g.Volume.Mounted()
	if !mounted || made == nil && (g.Record == nil || g.Record.Formatting == nil) {
		return disk.ContentUnknown, "", nil
	}
	found, err := p.Fence.ReadSuperblock(ctx, *g.Fact)
	switch {
	case err != nil:
		return disk.ContentUnknown, "", err
	case g.Record.Interrupted(found):
		return disk.ContentNone, "", nil
	case made != nil && found.Format == *made:
		return p.Fence.Unused(*g.Fact, *made)
	default:
		return disk.ContentUnknown, "", nil
	}
}

// superblockOf finds out what is on a volume's device.
func (p *Provisioner) superblockOf(ctx context.Context, g *gathered) (disk.Superblock, error) {
	found, err := callWithin(ctx, p, g.Path, g.conf.ProbeTimeout.Duration, func(ctx context.Context) (disk.Superblock, error) {
		return p.Fence.ReadSuperblock(ctx, *g.Fact)
	})
	if err != nil {
		return found, fmt.Errorf("read the superblock of %s: %w", g.Path, err)
	}
	return found, nil
}

// askNodes searches the reports of other nodes for a disk that this node has no record of, or
// had before.
func (p *Provisioner) askNodes(ctx context.Context, g *gathered) error {
	g.known.NodesAsked = true
	if p.Reports != nil {
		tombstone, err := p.tombstoneIndex.find(ctx, &p.Config, g.Fact.Identity)
		if err != nil {
			return err
		}
		if tombstone != nil && overrides(tombstone, g.Record) {
			g.known.tombstone = tombstone
			return nil
		}
	}
	if g.Record == nil {
		return nil
	}
	var err error
	g.known.ForeignPV, err = p.foreignPVs.find(ctx, p.Client, p.Node, g.Fact.Identity, g.present)
	return err
}

// findUnmanagedPV looks for a volume of the disk that this provisioner does not manage: one
// that the reference implementation created, or the disk's own, without the provisioner's
// labels and annotations. Two provisioners must not publish the same disk, and the data of
// a volume that a provisioner cannot see must not be cleaned. If there is one, its name is
// kept and the error is decide.ErrStale.
func (p *Provisioner) findUnmanagedPV(ctx context.Context, g *decide.Slot) error {
	names := []string{localpv.ReferenceName(p.Node, g.Key)}
	if g.Record != nil && g.Record.Volume != "" {
		names = append(names, g.Record.Volume)
	}
	for _, name := range names {
		found, err := p.getPV(ctx, name)
		if err != nil {
			return fmt.Errorf("look for a volume of %s: %w", g.Path, err)
		}
		if found == nil || localpv.Owned(found, p.Node) || localpv.PathOf(found) != g.Path || p.ofOtherNode(found) {
			continue // a collision of 32-bit names, or this provisioner's, which the informer will show
		}
		p.paths.update(g.Path, func(s *pathState) { s.unmanagedPV = name })
		return decide.ErrStale
	}
	return nil
}

// ofOtherNode reports whether a volume is that of another node's provisioner, which may have
// given it the name of a volume of this node to keep its disk from being published.
func (p *Provisioner) ofOtherNode(pv *corev1.PersistentVolume) bool {
	node := pv.Annotations[wellknown.NodeNameAnnotation]
	if node == "" || node == p.Node || pv.Annotations[localpv.ProvisionedByAnnotation] != localpv.ProvisionedBy(node) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return localpv.Excludes(pv, p.node.Hostname)
}

// getPV returns a volume as the API server has it; nil if it does not exist.
func (p *Provisioner) getPV(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	volume, err := p.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get volume %s: %w", name, err)
	}
	return volume, nil
}

// decideSlot decides on a path, and answers the questions of the decision. It returns an
// error if the API server could not be asked.
func (p *Provisioner) decideSlot(ctx context.Context, path string) (*gathered, decide.Decision, error) {
	var known answers
	searched := false
	for {
		g := p.gather(path, known)
		d := decide.Decide(&g.Slot, firstGeneration(g.conf.class(g.Key.Class), g.Since))
		if !searched && g.Volume == nil && (d.Do == decide.Inspect || d.Do == decide.Clean || d.Do == decide.MarkRetained) {
			searched = true // before the disk is read: the data may be an unmanaged volume's
			if err := p.findUnmanagedPV(ctx, &g.Slot); err != nil && !errors.Is(err, decide.ErrStale) {
				return g, d, err
			}
			continue
		}
		if !isQuestion(d.Do) {
			return g, d, nil
		}
		err := p.answer(ctx, g, d.Do)
		switch {
		case err != nil && d.Do == decide.AskNodes:
			return g, d, err
		case err != nil:
			g.questionFailed = true
			return g, decide.Decision{Do: decide.None, State: d.State, Problem: asProblem(err)}, nil
		case g.known.tombstone != nil:
			return g, decide.Decision{Do: decide.RestoreRecord, State: d.State}, nil
		}
		known = g.known
	}
}

// firstGeneration returns the generation of the first volume of a disk that was first found at
// since: the time in milliseconds, which is higher than the generation in a record that was
// lost, and differs from that of the former disk, since scans are further apart. Names of
// VolumeNameReference contain no generation; theirs start at the lowest.
func firstGeneration(class *provisioner.Class, since time.Time) int64 {
	if class != nil && class.VolumeName == provisioner.VolumeNameReference {
		return localpv.FirstGeneration
	}
	return max(since.UnixMilli(), localpv.FirstGeneration)
}

// tombstoneIndex finds the tombstones of all nodes: disks whose volume the controller has
// removed. Calls during a list share the next one, so that a node with a hundred new disks
// does not list a hundred times.
type tombstoneIndex struct {
	mu sync.Mutex
	// found are the tombstones of a list that started at listed.
	found  map[disk.Identity]stowage.Tombstone
	listed time.Time
}

// find returns the tombstone of a disk, as of the call or later; nil if there is none.
func (t *tombstoneIndex) find(ctx context.Context, from *Config, identity disk.Identity) (*stowage.Tombstone, error) {
	called := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.listed.After(called) {
		started := time.Now()
		found := map[disk.Identity]stowage.Tombstone{}
		add := func(tombstone stowage.Tombstone) {
			// If one of two nodes that had the disk retains its data, that one has precedence.
			if other, exists := found[disk.Identity(tombstone.Identity)]; !exists || other.State != stowage.TombstoneRetained {
				found[disk.Identity(tombstone.Identity)] = tombstone
			}
		}
		// Reports first: the controller creates the objects before it empties the reports.
		reports, err := from.Reports.List(ctx, metav1.ListOptions{LabelSelector: wellknown.TombstonesLabel + "=" + wellknown.TombstonesValue})
		if err != nil {
			return nil, fmt.Errorf("list the reports with tombstones: %w", err)
		}
		for i := range reports.Items {
			for _, tombstone := range reports.Items[i].Spec.Tombstones {
				add(tombstone)
			}
		}
		tombstones, err := from.Tombstones.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list the tombstones of all nodes: %w", err)
		}
		for i := range tombstones.Items {
			add(tombstones.Items[i].Spec.Tombstone)
		}
		t.found, t.listed = found, started
	}
	if tombstone, exists := t.found[identity]; exists {
		return &tombstone, nil
	}
	return nil, nil
}

// overrides reports whether a tombstone has precedence over this node's record of a disk. If
// the record is dirty, that is a tombstone which retains the data, or one of the same volume,
// which the controller released while the node has the volume as published.
func overrides(tombstone *stowage.Tombstone, record *disk.Record) bool {
	if record == nil || !record.State.Dirty() {
		return true
	}
	if tombstone.VolumeUID == record.UID {
		return tombstone.State != stowage.TombstoneRetained && record.State == disk.Published && record.UID != ""
	}
	return tombstone.State == stowage.TombstoneRetained
}

// foreignPVs finds volumes of other nodes that have a disk of this node. It lists the volumes
// of all nodes, so it is used only for disks that this node had before, has no volume of, and
// is about to clean or to publish. Calls during a list share the next one.
type foreignPVs struct {
	mu sync.Mutex
	// found has a volume, or an empty string, for each disk that was attached when the list
	// started at listed.
	found  map[disk.Identity]string
	listed time.Time
}

// find names a volume of another node that has the disk, as of the call or later; empty if
// there is none.
func (f *foreignPVs) find(ctx context.Context, client kubernetes.Interface, node string, identity disk.Identity, present map[disk.Identity]bool) (string, error) {
	called := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if volume, listed := f.found[identity]; listed && f.listed.After(called) {
		return volume, nil
	}
	found := map[disk.Identity]string{identity: ""}
	for attached := range present {
		found[attached] = ""
	}
	delete(found, "")
	started := time.Now()
	volumes := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().PersistentVolumes().List(ctx, options)
	})
	others := fmt.Sprintf("%s,%[1]s!=%s", wellknown.NodeLabel, localpv.NodeHash(node))
	err := volumes.EachListItemWithAlloc(ctx, metav1.ListOptions{LabelSelector: others}, func(object runtime.Object) error {
		volume, ok := object.(*corev1.PersistentVolume)
		if !ok {
			return fmt.Errorf("a list of volumes has a %T", object)
		}
		id := disk.Identity(volume.Annotations[wellknown.DiskIdentityAnnotation])
		if _, attached := found[id]; attached {
			found[id] = fmt.Sprintf("volume %s of node %s", volume.Name, volume.Annotations[wellknown.NodeNameAnnotation])
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("list the volumes of all nodes: %w", err)
	}
	f.found, f.listed = found, started
	return found[identity], nil
}
