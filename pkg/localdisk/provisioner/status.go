// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/metrics"
)

// Reasons of events, in addition to those of package disk. The reference implementation has
// the first two.
const (
	eventDelete       = "VolumeDelete"
	eventFailedDelete = "VolumeFailedDelete"
	eventPublished    = "VolumePublished"
	eventCleaned      = "VolumeCleaned"
	eventConfig       = "ConfigurationRejected"
)

// statusReporter writes the node's report, events and metrics. It records an event when a
// state begins, and not while it lasts.
type statusReporter struct {
	provisioner *Provisioner
	changed     chan struct{}

	mu     sync.Mutex
	config metav1.Condition // ConfigValid, without a time
	// reported is when the report was last written, or needed no change; failing is since when
	// writes fail, and problem why.
	reported, failing time.Time
	problem           error
	// outdated requests a write of the first page, which another client may have changed.
	outdated bool

	// cleared is the Node whose startup taint was removed. Only run uses it.
	cleared clearedNode
}

// entry is what was last reported about a path.
type entry struct {
	stowage.Entry
	// freed is when the volume was released, appeared when the disk of a volume that was just
	// published was first found; zero after they were measured.
	freed, appeared time.Time
	// failing is an action that has failed so far.
	failing decide.Action
	// marking reports whether the volume's mark of its disk is about to change.
	marking bool
}

func newStatusReporter(p *Provisioner) *statusReporter {
	return &statusReporter{provisioner: p, changed: make(chan struct{}, 1), config: metav1.Condition{
		Type: stowage.ConditionConfigValid, Status: metav1.ConditionTrue, Reason: "Valid",
	}}
}

func (r *statusReporter) poke() { poke(r.changed) }

// retriesOnScan reports whether a path waits for something that a scan may find changed.
func (e *entry) retriesOnScan() bool {
	if e == nil {
		return false
	}
	switch disk.Reason(e.Reason) {
	case disk.VolumeInUse, disk.InUse, disk.BadRecord, disk.SameBytes:
		return true
	default:
		return false
	}
}

// decided reports a decision.
func (r *statusReporter) decided(g *gathered, d decide.Decision) {
	r.provisioner.paths.update(g.path, func(s *pathState) {
		switch {
		case g.Fact != nil || g.Volume != nil:
			if s.entry == nil {
				s.entry = &entry{}
			}
			r.updateEntry(s.entry, g, d)
		case s.entry != nil:
			s.entry = nil
			r.poke()
		}
	})
}

// updateEntry records a decision, with an event if its reason is new.
func (r *statusReporter) updateEntry(e *entry, g *gathered, d decide.Decision) {
	next := describe(g, d)
	if e.failing != d.Do || d.Do == decide.Clean {
		e.failing = ""
	}
	if e.failing != "" && d.Problem == nil { // retried, and not done yet
		next.Reason, next.Message = e.Reason, e.Message
	}
	if g.Volume != nil && g.Volume.Phase == disk.PhaseReleased && e.freed.IsZero() {
		e.freed = time.Now()
	}
	if next.State == stowage.EntryAvailable || next.State == stowage.EntryBound { // it may get a claim before it is Available
		e.observeAvailable()
	}
	if e.Since != nil && next.State == e.State && next.Reason == e.Reason {
		next.Since = e.Since
	}
	fresh := next.Reason != "" && (next.Reason != e.Reason || next.Volume != e.Volume)
	marking := d.Do == decide.MarkDisk
	if marking != e.marking || !equality.Semantic.DeepEqual(next, e.Entry) {
		r.poke()
	}
	e.Entry, e.marking = next, marking
	switch {
	case fresh && g.Volume != nil:
		r.warn(reference(g.Volume.Name, g.Volume.UID), next.Reason, next.Message)
	case fresh && next.Acknowledgement != "" && d.Problem.Reason != disk.NotEmpty:
		r.warn(r.nodeReference(), next.Reason, g.path+": "+next.Message)
	}
}

// observeAvailable measures once how long it took until a volume was Available: from when its
// disk was first found, or from when the volume before it was released.
func (e *entry) observeAvailable() {
	now := time.Now()
	switch {
	case !e.freed.IsZero():
		metrics.ObserveReleasedAvailable(now.Sub(e.freed))
	case !e.appeared.IsZero():
		metrics.ObserveDiskAvailable(now.Sub(e.appeared))
	}
	e.freed, e.appeared = time.Time{}, time.Time{}
}

// describe returns the report's entry of a slot.
func describe(g *gathered, d decide.Decision) stowage.Entry {
	now := metav1.Now()
	e := stowage.Entry{Class: g.Key.Class, Name: g.Key.Name, Path: g.path, State: d.State, Since: &now}
	if f := g.Fact; f != nil {
		e.Kind, e.Bytes, e.Identity = string(f.Kind), f.Bytes, string(f.Identity)
	}
	if g.Record != nil {
		e.Generation = g.Record.Generation
	} else if len(g.Predecessors) > 0 {
		e.Generation = g.Predecessors[0].Generation
	}
	if v := g.Volume; v != nil {
		e.Volume, e.Mode, e.Generation = v.Name, string(v.Mode), v.Generation
		if e.Bytes == 0 || g.Fact.SharesSpace() {
			e.Bytes = v.Bytes
		}
	}
	e.Link, e.Filesystem = describeLink(g)
	if d.Problem != nil {
		e.Reason, e.Message = string(d.Problem.Reason), d.Problem.Message
		if acknowledgeable(g, d.Problem.Reason) {
			e.Acknowledgement = g.Slot.Acknowledgement()
		}
	}
	return e
}

// describeLink returns the state of the link by which kubelet finds a volume's device, and the
// file system that is recorded; empty for volumes of other kinds.
func describeLink(g *gathered) (link, filesystem string) {
	if v := g.Volume; v != nil {
		switch {
		case v.Link == "" && g.Fact != nil && g.Fact.Kind == disk.Device:
			link = stowage.LinkUnprotected
		case v.Link != "" && g.Link == "":
			link = stowage.LinkWithheld
		case v.Link != "":
			link = stowage.LinkPresent
		}
	}
	if r := g.VolumeRecord; link != "" && r != nil && r.Filesystem != nil && r.Filesystem.Type != "" {
		filesystem = r.Filesystem.String()
	}
	return link, filesystem
}

// acknowledgeable reports whether an administrator can acknowledge the data of a disk that is
// not published for a reason.
func acknowledgeable(g *gathered, reason disk.Reason) bool {
	switch reason {
	case disk.NotEmpty:
		return g.Volume == nil
	case disk.IdentityUnproven:
		return len(g.Predecessors) > 0
	case disk.RetainedDirty, disk.OtherCluster, disk.VolumeVanished, disk.OrphanGracePeriod, disk.OrphanCleanWaits:
		return true
	default:
		return false
	}
}

// failed reports an action that failed, and returns whether the error is a new one.
func (r *statusReporter) failed(g *gathered, d decide.Decision, err error) bool {
	problem := &disk.Problem{Reason: "Cannot" + disk.Reason(d.Do), Message: err.Error()}
	if known, ok := errors.AsType[*disk.Problem](err); ok {
		problem = known
	}
	fresh := true
	r.provisioner.paths.update(g.path, func(s *pathState) {
		fresh = s.entry == nil || s.entry.Reason != string(problem.Reason) || s.entry.Message != problem.Message
	})
	r.decided(g, decide.Decision{Do: d.Do, State: d.State, Problem: problem})
	r.provisioner.paths.update(g.path, func(s *pathState) {
		if s.entry != nil {
			s.entry.failing = d.Do
		}
	})
	return fresh
}

func (r *statusReporter) published(volume *corev1.PersistentVolume, g *gathered) {
	r.note(reference(volume.Name, string(volume.UID)), eventPublished, fmt.Sprintf("Published %s (%d bytes) of node %s", g.path, g.Fact.Bytes, r.provisioner.Node))
	metrics.ObservePublish(metrics.VolumeMode(*volume.Spec.VolumeMode), time.Since(g.since))
	r.provisioner.paths.update(g.path, func(s *pathState) {
		if s.entry != nil {
			s.entry.appeared = g.since
		}
	})
}

// removed reports that a volume without a claim was withdrawn.
func (r *statusReporter) removed(g *gathered, d decide.Decision) {
	if d.Problem != nil {
		r.note(reference(g.Volume.Name, g.Volume.UID), eventDelete, "Withdrawn: "+d.Problem.Message)
	}
}

func (r *statusReporter) cleanStarted(job *clean) {
	if v := job.Volume; v != nil {
		r.note(reference(v.Name, v.UID), eventDelete,
			fmt.Sprintf("Cleaning %s of node %s (%s); this can take some time", job.path, r.provisioner.Node, cleanerName(job.command)))
	}
	r.poke()
}

// cleanEnded reports how a clean ended.
func (r *statusReporter) cleanEnded(ctx context.Context, job *clean, err error) {
	defer r.poke()
	if ctx.Err() != nil || errors.Is(err, errStale) {
		return
	}
	observeClean(job, metrics.VolumeMode(job.mode()), err != nil)
	var object *corev1.ObjectReference
	if v := job.Volume; v != nil {
		object = reference(v.Name, v.UID)
	} else {
		object = r.nodeReference()
	}
	var problem *disk.Problem
	switch {
	case err == nil:
		r.note(object, eventCleaned, fmt.Sprintf("Cleaned %s of node %s in %s", job.path, r.provisioner.Node, time.Since(job.begun).Round(time.Millisecond)))
	case errors.As(err, &problem) && problem.Reason == disk.VolumeInUse:
		r.warn(object, string(problem.Reason), problem.Message)
	default:
		r.warn(object, eventFailedDelete, fmt.Sprintf("Cleaning %s of node %s failed, and will be retried: %v", job.path, r.provisioner.Node, err))
	}
}

// Actions of events. Everything but cleans is part of publishing.
const (
	actionPublish = "Publish"
	actionClean   = "Clean"
)

func (r *statusReporter) note(object *corev1.ObjectReference, reason, text string) {
	r.event(object, corev1.EventTypeNormal, reason, text)
}

func (r *statusReporter) warn(object *corev1.ObjectReference, reason, text string) {
	r.event(object, corev1.EventTypeWarning, reason, text)
}

func (r *statusReporter) event(object *corev1.ObjectReference, kind, reason, text string) {
	action := actionPublish
	switch reason {
	case eventDelete, eventCleaned, eventFailedDelete, string(disk.VolumeInUse):
		action = actionClean
	}
	r.provisioner.Events.Eventf(object, nil, kind, reason, action, "%s", note(text))
}

// maxNote is the API server's limit for the note of an event, in bytes.
const maxNote = 1024

// note shortens a text to maxNote.
func note(text string) string {
	if len(text) <= maxNote {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:maxNote-len(more)], "") + more
}

// reference refers to a volume that an event is about.
func reference(name, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "PersistentVolume", APIVersion: "v1", Name: name, UID: types.UID(uid)}
}

// nodeReference refers to the node.
func (r *statusReporter) nodeReference() *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: r.provisioner.Node, UID: types.UID(r.provisioner.Node)}
}

// configRejected reports why a configuration is not valid; nil reports that the last one is.
func (r *statusReporter) configRejected(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := metav1.Condition{Type: stowage.ConditionConfigValid, Status: metav1.ConditionTrue, Reason: "Valid"}
	if err != nil {
		next.Status, next.Reason, next.Message = metav1.ConditionFalse, eventConfig, stowage.FitMessage(err.Error())
	}
	if next.Status == r.config.Status && next.Message == r.config.Message {
		return
	}
	r.config = next
	if err != nil {
		r.warn(r.nodeReference(), eventConfig, "The last good configuration stays in force: "+next.Message)
	}
	r.poke()
}
