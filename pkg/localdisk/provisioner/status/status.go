// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status writes the node's LocalDiskReport, the events about its disks and volumes, the
// metrics, the node's heartbeat, and removes its startup taint.
package status

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/events"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
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

// Paths has what is known about the paths on the node.
type Paths interface {
	// UpdateEntry replaces what was last reported about a path; nil for nothing.
	UpdateEntry(path string, change func(*Entry) *Entry)
	// Entries returns what was last reported, by path.
	Entries() map[string]Entry
	// Directory returns whether the last scan read the directory of a class, and why not.
	Directory(class string) (read bool, problem *disk.Problem)
}

// Provisioner is what the reporter reports about.
type Provisioner interface {
	// CheckReads returns an error unless the directory of a class is read; of all classes if
	// class is empty.
	CheckReads(class string) error
	// AllDecided reports whether every disk and every volume has been decided on.
	AllDecided() bool
	// ReadAnnotations is called with the first page of the node's report.
	ReadAnnotations(ctx context.Context, report *stowage.LocalDiskReport)
}

// Cleans has the progress of cleans.
type Cleans interface {
	// Describe returns the progress at a path; nil for none.
	Describe(path string) *stowage.Cleaning
	Running() bool
	// Count returns the totals. published counts volumes that are being reclaimed.
	Count(published int) metrics.Cleans
}

// Proofs has the progress of blank proofs.
type Proofs interface {
	// Describe returns the progress at a path; nil for none.
	Describe(path string) *stowage.BlankProof
	Running() bool
	Count() (running, queued int)
}

// Config is what a Reporter needs.
type Config struct {
	Node   string
	Client kubernetes.Interface
	// Reports writes the node's report; nil writes none.
	Reports Reports
	Events  events.EventRecorder
	Paths   Paths
	// Settings returns the configuration in force; Cluster the UID of namespace kube-system.
	Settings    func() *provisioner.ProvisionerConfiguration
	Cluster     func() string
	Provisioner Provisioner
	Records     *diskrecord.Store
	// Volume returns a volume of the node as the informer shows it; nil if it does not.
	Volume  func(name string) *corev1.PersistentVolume
	Classes storagelisters.StorageClassLister
}

// Reporter writes the node's report, events and metrics. It records an event when a state
// begins, and not while it lasts. Its methods are safe for concurrent use.
type Reporter struct {
	Config
	cleans  Cleans
	proofs  Proofs
	changed chan struct{}
	// outdated requests a write of the first page, which another client may have changed.
	outdated atomic.Bool

	mu     sync.Mutex
	config metav1.Condition // ConfigValid, without a time
	// reported is when the report was last written, or needed no change; failing is since when
	// writes fail, and problem why.
	reported, failing time.Time
	problem           error

	// cleared is the Node whose startup taint was removed. Only Run uses it.
	cleared clearedNode
}

// New returns a reporter that Run starts.
func New(config Config) *Reporter {
	return &Reporter{Config: config, changed: make(chan struct{}, 1), config: configValid}
}

// Follow reports the progress of cleans and proofs too. It is called before Run.
func (r *Reporter) Follow(cleans Cleans, proofs Proofs) { r.cleans, r.proofs = cleans, proofs }

// Changed requests a write of the report, if it differs from the last version.
func (r *Reporter) Changed() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Decided reports a decision.
func (r *Reporter) Decided(s *decide.Slot, d decide.Decision) {
	r.Paths.UpdateEntry(s.Path, func(e *Entry) *Entry { return r.updateEntry(e, s, d) })
}

// updateEntry returns the entry of a path after a decision; nil if there is neither a disk nor a
// volume. It records an event if the reason is new.
func (r *Reporter) updateEntry(e *Entry, s *decide.Slot, d decide.Decision) *Entry {
	if s.Fact == nil && s.Volume == nil {
		if e != nil {
			r.Changed()
		}
		return nil
	}
	if e == nil {
		e = &Entry{}
	}
	next := describe(s, d)
	if e.failing != d.Do || d.Do == decide.Clean {
		e.failing = ""
	}
	if e.failing != "" && d.Problem == nil { // retried, and not done yet
		next.Reason, next.Message = e.Reason, e.Message
	}
	if s.Volume != nil && s.Volume.Phase == disk.PhaseReleased && e.freed.IsZero() {
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
		r.Changed()
	}
	e.Entry, e.marking = next, marking
	switch {
	case fresh && s.Volume != nil:
		r.warn(reference(s.Volume.Name, s.Volume.UID), next.Reason, next.Message)
	case fresh && next.Acknowledgement != "" && d.Problem.Reason != disk.NotEmpty:
		r.warn(r.nodeReference(), next.Reason, s.Path+": "+next.Message)
	}
	return e
}

// Failed reports an action that failed, and returns whether the error is a new one.
func (r *Reporter) Failed(s *decide.Slot, d decide.Decision, err error) bool {
	problem := &disk.Problem{Reason: "Cannot" + disk.Reason(d.Do), Message: err.Error()}
	if known, ok := errors.AsType[*disk.Problem](err); ok {
		problem = known
	}
	fresh := true
	r.Paths.UpdateEntry(s.Path, func(e *Entry) *Entry {
		fresh = e == nil || e.Reason != string(problem.Reason) || e.Message != problem.Message
		if e = r.updateEntry(e, s, decide.Decision{Do: d.Do, State: d.State, Problem: problem}); e != nil {
			e.failing = d.Do
		}
		return e
	})
	return fresh
}

// Published reports that a volume was created.
func (r *Reporter) Published(volume *corev1.PersistentVolume, s *decide.Slot) {
	r.note(reference(volume.Name, string(volume.UID)), eventPublished, fmt.Sprintf("Published %s (%d bytes) of node %s", s.Path, s.Fact.Bytes, r.Node))
	metrics.ObservePublish(metrics.VolumeMode(*volume.Spec.VolumeMode), time.Since(s.Since))
	r.Paths.UpdateEntry(s.Path, func(e *Entry) *Entry {
		if e != nil {
			e.appeared = s.Since
		}
		return e
	})
}

// Removed reports that a volume without a claim was withdrawn.
func (r *Reporter) Removed(s *decide.Slot, d decide.Decision) {
	if d.Problem != nil {
		r.note(reference(s.Volume.Name, s.Volume.UID), eventDelete, "Withdrawn: "+d.Problem.Message)
	}
}

// CleanStarted reports that a clean has begun.
func (r *Reporter) CleanStarted(s *decide.Slot, method string) {
	if v := s.Volume; v != nil {
		r.note(reference(v.Name, v.UID), eventDelete, fmt.Sprintf("Cleaning %s of node %s (%s); this can take some time", s.Path, r.Node, method))
	}
	r.Changed()
}

// CleanEnded reports how a clean ended.
func (r *Reporter) CleanEnded(s *decide.Slot, c metrics.Clean, err error) {
	metrics.ObserveClean(c)
	object := r.nodeReference()
	if v := s.Volume; v != nil {
		object = reference(v.Name, v.UID)
	}
	var problem *disk.Problem
	switch {
	case err == nil:
		r.note(object, eventCleaned, fmt.Sprintf("Cleaned %s of node %s in %s", s.Path, r.Node, c.Took.Round(time.Millisecond)))
	case errors.As(err, &problem) && problem.Reason == disk.VolumeInUse:
		r.warn(object, string(problem.Reason), problem.Message)
	default:
		r.warn(object, eventFailedDelete, fmt.Sprintf("Cleaning %s of node %s failed, and will be retried: %v", s.Path, r.Node, err))
	}
}

// Actions of events. Everything but cleans is part of publishing.
const (
	actionPublish = "Publish"
	actionClean   = "Clean"
)

func (r *Reporter) note(object *corev1.ObjectReference, reason, text string) {
	r.event(object, corev1.EventTypeNormal, reason, text)
}

func (r *Reporter) warn(object *corev1.ObjectReference, reason, text string) {
	r.event(object, corev1.EventTypeWarning, reason, text)
}

func (r *Reporter) event(object *corev1.ObjectReference, kind, reason, text string) {
	action := actionPublish
	switch reason {
	case eventDelete, eventCleaned, eventFailedDelete, string(disk.VolumeInUse):
		action = actionClean
	}
	r.Events.Eventf(object, nil, kind, reason, action, "%s", text)
}

// reference refers to a volume that an event is about.
func reference(name, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "PersistentVolume", APIVersion: "v1", Name: name, UID: types.UID(uid)}
}

// nodeReference refers to the node.
func (r *Reporter) nodeReference() *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: r.Node, UID: types.UID(r.Node)}
}

// Entry is what was last reported about a path.
type Entry struct {
	stowage.Entry
	// freed is when the volume was released, appeared when the disk of a volume that was just
	// published was first found; zero after they were measured.
	freed, appeared time.Time
	// failing is an action that has failed so far.
	failing decide.Action
	// marking reports whether the volume's mark of its disk is about to change.
	marking bool
}

// RetriesOnScan reports whether a path waits for something that a scan may find changed.
func (e *Entry) RetriesOnScan() bool {
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

// observeAvailable measures once how long it took until a volume was Available: from when its
// disk was first found, or from when the volume before it was released.
func (e *Entry) observeAvailable() {
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
func describe(s *decide.Slot, d decide.Decision) stowage.Entry {
	now := metav1.Now()
	e := stowage.Entry{Class: s.Key.Class, Name: s.Key.Name, Path: s.Path, State: d.State, Since: &now}
	if f := s.Fact; f != nil {
		e.Kind, e.Bytes, e.Identity = string(f.Kind), f.Bytes, string(f.Identity)
	}
	if s.Record != nil {
		e.Generation = s.Record.Generation
	} else if len(s.Predecessors) > 0 {
		e.Generation = s.Predecessors[0].Generation
	}
	if v := s.Volume; v != nil {
		e.Volume, e.Mode, e.Generation = v.Name, string(v.Mode), v.Generation
		if e.Bytes == 0 || s.Fact.SharesSpace() {
			e.Bytes = v.Bytes
		}
	}
	e.Link, e.Filesystem = describeLink(s)
	if d.Problem != nil {
		e.Reason, e.Message = string(d.Problem.Reason), d.Problem.Message
		if acknowledgeable(s, d.Problem.Reason) {
			e.Acknowledgement = s.Acknowledgement()
		}
	}
	return e
}

// describeLink returns the state of the link by which kubelet finds a volume's device, and the
// file system that is recorded; empty for volumes of other kinds.
func describeLink(s *decide.Slot) (link, filesystem string) {
	if v := s.Volume; v != nil {
		switch {
		case v.Link == "" && s.Fact != nil && s.Fact.Kind == disk.Device:
			link = stowage.LinkUnprotected
		case v.Link != "" && s.Link == "":
			link = stowage.LinkWithheld
		case v.Link != "":
			link = stowage.LinkPresent
		}
	}
	if r := s.VolumeRecord; link != "" && r != nil && r.Filesystem != nil && r.Filesystem.Type != "" {
		filesystem = r.Filesystem.String()
	}
	return link, filesystem
}

// acknowledgeable reports whether an administrator can acknowledge the data of a disk that is
// not published for a reason.
func acknowledgeable(s *decide.Slot, reason disk.Reason) bool {
	switch reason {
	case disk.NotEmpty:
		return s.Volume == nil
	case disk.IdentityUnproven:
		return len(s.Predecessors) > 0
	case disk.RetainedDirty, disk.OtherCluster, disk.VolumeVanished, disk.OrphanGracePeriod, disk.OrphanCleanWaits:
		return true
	default:
		return false
	}
}
