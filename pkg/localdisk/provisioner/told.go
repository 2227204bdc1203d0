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

// Reasons of events besides those of package disk. The first two are the reference
// implementation's.
const (
	eventDelete       = "VolumeDelete"
	eventFailedDelete = "VolumeFailedDelete"
	eventPublished    = "VolumePublished"
	eventCleaned      = "VolumeCleaned"
	eventConfig       = "ConfigurationRejected"
)

// told is what users are told: the report's entries, events and metrics. An event is
// written when something becomes so, not while it stays so.
type told struct {
	agent *Agent
	news  chan struct{}

	mu      sync.Mutex
	entries map[string]*entry // by path
	config  metav1.Condition  // ConfigValid, without a time
	// reported is when the report was last written, or found to need no change; failing is
	// since when that fails, and problem why.
	reported, failing time.Time
	problem           error
	// outdated has the first page written although it has not changed here: somebody else may
	// have written it.
	outdated bool
}

// entry is what was last told of a slot.
type entry struct {
	stowage.Entry
	// freed is when the volume's claim was gone, appeared when the disk of a volume
	// that was just published was first seen; zero when that has been measured.
	freed, appeared time.Time
	// failing is what was decided, and could not be done so far.
	failing decide.Action
	// marking says that the volume is about to say something else of its disk.
	marking bool
}

func newTold(a *Agent) *told {
	return &told{agent: a, news: make(chan struct{}, 1), entries: map[string]*entry{}, config: metav1.Condition{
		Type: stowage.ConditionConfigValid, Status: metav1.ConditionTrue, Reason: "Valid",
	}}
}

func (t *told) poke() { poke(t.news) }

// waits says whether a slot could not go on when it was last decided about: a look at
// the disks is an occasion to try again.
func (t *told) waits(path string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[path]
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

// decided takes down a decision.
func (t *told) decided(g *gathered, d decide.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g.Fact == nil && g.Volume == nil {
		if t.entries[g.path] != nil {
			delete(t.entries, g.path)
			t.poke()
		}
		return
	}
	e := t.entries[g.path]
	if e == nil {
		e = &entry{}
		t.entries[g.path] = e
	}
	next := describe(g, d)
	if e.failing != d.Do || d.Do == decide.Clean {
		e.failing = ""
	}
	if e.failing != "" && d.Problem == nil { // tried again, and not done yet
		next.Reason, next.Message = e.Reason, e.Message
	}
	if g.Volume != nil && g.Volume.Phase == disk.PhaseReleased && e.freed.IsZero() {
		e.freed = time.Now()
	}
	if next.State == stowage.EntryAvailable || next.State == stowage.EntryBound { // it may have a claim at once
		e.observeAvailable()
	}
	if e.Since != nil && next.State == e.State && next.Reason == e.Reason {
		next.Since = e.Since
	}
	fresh := next.Reason != "" && (next.Reason != e.Reason || next.Volume != e.Volume)
	marking := d.Do == decide.MarkDisk
	if marking != e.marking || !equality.Semantic.DeepEqual(next, e.Entry) {
		t.poke()
	}
	e.Entry, e.marking = next, marking
	switch {
	case fresh && g.Volume != nil:
		t.warn(reference(g.Volume.Name, g.Volume.UID), next.Reason, next.Message)
	case fresh && next.Acknowledgement != "" && d.Problem.Reason != disk.NotEmpty:
		t.warn(t.agent.nodeReference(), next.Reason, g.path+": "+next.Message)
	}
}

// describe is the report's entry for a slot.
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

// describeLink is how kubelet finds the device of a volume, and the file system that is
// recorded of it; empty for volumes of other kinds.
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

// acknowledgeable says whether an administrator can have a disk published with its data
// that is not published for the reason.
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

// failed tells that something that was decided could not be done, and whether that is
// news.
func (t *told) failed(g *gathered, d decide.Decision, err error) bool {
	problem := &disk.Problem{Reason: "Cannot" + disk.Reason(d.Do), Message: err.Error()}
	if known, ok := errors.AsType[*disk.Problem](err); ok {
		problem = known
	}
	t.mu.Lock()
	e := t.entries[g.path]
	fresh := e == nil || e.Reason != string(problem.Reason) || e.Message != problem.Message
	t.mu.Unlock()
	t.decided(g, decide.Decision{Do: d.Do, State: d.State, Problem: problem})
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entries[g.path]; e != nil {
		e.failing = d.Do
	}
	return fresh
}

func (t *told) published(volume *corev1.PersistentVolume, g *gathered) {
	t.note(reference(volume.Name, string(volume.UID)), eventPublished, fmt.Sprintf("Published %s (%d bytes) of node %s", g.path, g.Fact.Bytes, t.agent.Node))
	metrics.ObservePublish(metrics.VolumeMode(*volume.Spec.VolumeMode), time.Since(g.since))
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entries[g.path]; e != nil {
		e.appeared = g.since
	}
}

// removed tells that a volume was withdrawn that nobody had used.
func (t *told) removed(g *gathered, d decide.Decision) {
	if d.Problem != nil {
		t.note(reference(g.Volume.Name, g.Volume.UID), eventDelete, "Withdrawn: "+d.Problem.Message)
	}
}

func (t *told) cleaning(job *clean) {
	if v := job.Volume; v != nil {
		t.note(reference(v.Name, v.UID), eventDelete,
			fmt.Sprintf("Cleaning %s of node %s (%s); this can take some time", job.path, t.agent.Node, cleanerName(job.command)))
	}
	t.poke()
}

// cleaned tells how a clean ended.
func (t *told) cleaned(ctx context.Context, job *clean, err error) {
	defer t.poke()
	if ctx.Err() != nil || errors.Is(err, errAgain) {
		return
	}
	observeClean(job, metrics.VolumeMode(t.agent.modeOf(job.gathered)), err != nil)
	var object *corev1.ObjectReference
	if v := job.Volume; v != nil {
		object = reference(v.Name, v.UID)
	} else {
		object = t.agent.nodeReference()
	}
	var problem *disk.Problem
	switch {
	case err == nil:
		t.note(object, eventCleaned, fmt.Sprintf("Cleaned %s of node %s in %s", job.path, t.agent.Node, time.Since(job.begun).Round(time.Millisecond)))
	case errors.As(err, &problem) && problem.Reason == disk.VolumeInUse:
		t.warn(object, string(problem.Reason), problem.Message)
	default:
		t.warn(object, eventFailedDelete, fmt.Sprintf("Cleaning %s of node %s failed, and will be tried again: %v", job.path, t.agent.Node, err))
	}
}

// What the agent was doing, for events: cleaning, or publishing and all else.
const (
	actionPublish = "Publish"
	actionClean   = "Clean"
)

func (t *told) note(object *corev1.ObjectReference, reason, text string) {
	t.event(object, corev1.EventTypeNormal, reason, text)
}

func (t *told) warn(object *corev1.ObjectReference, reason, text string) {
	t.event(object, corev1.EventTypeWarning, reason, text)
}

func (t *told) event(object *corev1.ObjectReference, kind, reason, text string) {
	action := actionPublish
	switch reason {
	case eventDelete, eventCleaned, eventFailedDelete, string(disk.VolumeInUse):
		action = actionClean
	}
	t.agent.Events.Eventf(object, nil, kind, reason, action, "%s", note(text))
}

// maxNote is what the API server takes of an event's note, in bytes.
const maxNote = 1024

// note makes a text one that an event may have.
func note(text string) string {
	if len(text) <= maxNote {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:maxNote-len(more)], "") + more
}

// reference is what an event is about.
func reference(name, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "PersistentVolume", APIVersion: "v1", Name: name, UID: types.UID(uid)}
}

// nodeReference is the node as an event is about it.
func (a *Agent) nodeReference() *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: a.Node, UID: types.UID(a.Node)}
}

// Rejected tells that a configuration was not taken; nil tells that the one in force
// is what was last written.
func (a *Agent) Rejected(err error) {
	t := a.told
	t.mu.Lock()
	defer t.mu.Unlock()
	next := metav1.Condition{Type: stowage.ConditionConfigValid, Status: metav1.ConditionTrue, Reason: "Valid"}
	if err != nil {
		next.Status, next.Reason, next.Message = metav1.ConditionFalse, eventConfig, stowage.FitMessage(err.Error())
	}
	if next.Status == t.config.Status && next.Message == t.config.Message {
		return
	}
	t.config = next
	if err != nil {
		t.warn(a.nodeReference(), eventConfig, "The last good configuration stays in force: "+next.Message)
	}
	t.poke()
}
