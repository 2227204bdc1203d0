// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	case decide.ReadSuperblock:
		p.readSuperblock(ctx, g)
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
		if g.AsPublished() {
			known.Content, known.Found, err = p.Inspector.Cleaned(ctx, *g.Fact, g.OfferedMode())
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

// readSuperblock finds out what is on a volume's device. A superblock that cannot be read is
// an answer too.
func (p *Provisioner) readSuperblock(ctx context.Context, g *gathered) {
	found, err := p.superblockOf(ctx, g)
	if err != nil {
		found = disk.Superblock{Problem: asProblem(err)}
	}
	g.known.Superblock = &found
}

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
		tombstone, err := p.tombstoneIndex.find(ctx, p.Reports, g.Fact.Identity)
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
