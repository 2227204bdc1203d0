// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory lists the node's disks as LocalDisk objects. An object is written when the
// disk's status has changed, so a restart writes nothing.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	// passPause is the least time between two passes: pods that come and go may change how a
	// disk is used at any rate.
	passPause = 10 * time.Second
	// passMax is the longest time between two passes.
	passMax = 5 * time.Minute
	// retryMax is the longest time between two passes that failed.
	retryMax = 5 * time.Minute
	// reread is how often the objects are read again, since others may have deleted some.
	reread = time.Hour
	// startDelay is the longest time before the first pass: all nodes may start at once.
	startDelay = 30 * time.Second
	// gap is how many slots in a row must be absent to end a read, if it is not known which are in
	// use.
	gap = 16
	// missingAfter is how long a disk must not be found before it is Missing: after a start of the
	// node some take long to appear.
	missingAfter = time.Minute
	// rereadProblem is the time between two reads of a disk that could not be read.
	rereadProblem = 10 * time.Minute
)

// Devices reads the block devices of the node.
type Devices interface {
	// BlockDevices returns all devices that are not partitions. It reads no device.
	BlockDevices() ([]disk.BlockDevice, error)
	// ReadContent reads what is on a device. It returns even if that does not answer.
	ReadContent(ctx context.Context, device disk.BlockDevice) disk.Superblock
}

// Disks reads and writes LocalDisks.
type Disks interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*stowage.LocalDisk, error)
	Create(ctx context.Context, disk *stowage.LocalDisk, opts metav1.CreateOptions) (*stowage.LocalDisk, error)
	UpdateStatus(ctx context.Context, disk *stowage.LocalDisk, opts metav1.UpdateOptions) (*stowage.LocalDisk, error)
}

// Slots remembers which slots may be in use: those below a number.
type Slots interface {
	// DiskSlots returns the number; 0 if it is not known.
	DiskSlots() int
	// PutDiskSlots replaces the number, and returns once that survives a restart.
	PutDiskSlots(slots int) error
}

// Config is what a Lister needs.
type Config struct {
	Node string
	// KubeletDir is kubelet's root directory on the node.
	KubeletDir string
	Devices    Devices
	Disks      Disks
	Slots      Slots
	// Enabled reports whether disks are listed, by the configuration in force.
	Enabled func() bool
	// Health returns the health of a disk or a file system.
	Health func(identity disk.Identity) disk.Health
	// Owner returns the reference to the Node, with which its disks are deleted.
	Owner func(ctx context.Context) (metav1.OwnerReference, error)
}

// Lister lists the node's disks. Run is to be called once; Scanned is safe for concurrent use.
type Lister struct {
	Config
	changed chan struct{}

	mu      sync.Mutex
	scanned *disk.Scanned // the last scan of the discovery directories; nil before the first

	// Only Run uses these.
	objects  map[int]*stowage.LocalDisk // by slot; nil if they have to be read
	got      time.Time
	contents map[disk.Identity]reading
	seen     map[disk.Identity]time.Time // when a disk was last found, or first missed
	// What was logged last: devices that are not listed, and how many disks have no slot.
	others  map[string]*disk.Problem
	omitted int
}

// reading is what was read of a disk.
type reading struct {
	content string // BlockDevice.Content before the read
	found   disk.Superblock
	at      time.Time
}

// New returns a lister that Run starts.
func New(config Config) *Lister {
	return &Lister{Config: config, changed: make(chan struct{}, 1), contents: map[disk.Identity]reading{}, seen: map[disk.Identity]time.Time{}}
}

// Scanned reports what a scan of the discovery directories found, and requests a pass.
func (l *Lister) Scanned(scanned disk.Scanned) {
	l.mu.Lock()
	l.scanned = &scanned
	l.mu.Unlock()
	l.request()
}

// request requests a pass.
func (l *Lister) request() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Run lists the disks until ctx ends.
func (l *Lister) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(rand.N(startDelay)):
	}
	wait := time.Duration(0) // after failures
	for {
		timer := time.NewTimer(passMax)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-l.changed:
		case <-timer.C:
		}
		timer.Stop()
		if err := l.pass(ctx); err == nil {
			wait = 0
		} else if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to list the disks of the node; retrying")
			wait = min(2*wait+passPause, retryMax)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(passPause, wait) + rand.N(passPause/10)):
		}
		if wait > 0 {
			l.request()
		}
	}
}

// pass reads the devices, and writes what has changed.
func (l *Lister) pass(ctx context.Context) error {
	l.mu.Lock()
	scanned := l.scanned
	l.mu.Unlock()
	if scanned == nil || !l.Enabled() {
		metrics.SetUnlistedDisks(0)
		l.objects = nil
		return nil
	}
	devices, err := l.Devices.BlockDevices()
	if err != nil {
		return err
	}
	if err := l.read(ctx); err != nil {
		return err
	}
	listed, others := decide.Listed(devices)
	slots, omitted := decide.DiskSlots(l.statuses(), slices.Collect(maps.Keys(listed)))
	l.logOthers(ctx, others, omitted)
	next := l.missing(slots, time.Now())
	contents := map[disk.Identity]reading{}
	for id, slot := range slots {
		next[slot] = l.describe(ctx, listed[id], scanned, l.statusOf(slot), contents)
	}
	l.contents = contents
	if err := l.remember(next); err != nil {
		return err
	}
	var failed []error
	for _, slot := range slices.Sorted(maps.Keys(next)) {
		err := l.write(ctx, slot, next[slot])
		if err != nil {
			failed = append(failed, err)
		}
		if err != nil && !ofOneObject(err) {
			break
		}
	}
	return errors.Join(failed...)
}

// ofOneObject reports whether a request was refused for its object. The others may be written then.
func ofOneObject(err error) bool {
	return absent(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
}

// absent reports whether a request failed because its object does not exist, though its kind does.
func absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// read reads the objects of the node by their names, if that is due. A list would cost the API
// server a comparison with the objects of all nodes.
func (l *Lister) read(ctx context.Context) error {
	if l.objects != nil && time.Since(l.got) < reread {
		return nil
	}
	objects, missing, used := map[int]*stowage.LocalDisk{}, 0, l.Slots.DiskSlots()
	for slot := range stowage.MaxLocalDisks {
		if used > 0 && slot >= used || used <= 0 && missing == gap {
			break
		}
		object, err := l.get(ctx, slot)
		if err != nil {
			return err
		}
		if object == nil {
			missing++
			continue
		}
		objects[slot], missing = object, 0
	}
	l.objects, l.got = objects, time.Now()
	return nil
}

// get returns the object of a slot; nil if there is none.
func (l *Lister) get(ctx context.Context, slot int) (*stowage.LocalDisk, error) {
	name, err := l.name(slot)
	if err != nil {
		return nil, err
	}
	// What the API server has in memory suffices: each write is a compare-and-swap.
	object, err := l.Disks.Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	switch {
	case absent(err):
		return nil, nil
	case err != nil: // also if there is no such kind
		return nil, fmt.Errorf("get LocalDisk %s, whose kind is in manifests/crd: %w", name, err)
	}
	return object, nil
}

// readAgain reads the object of a slot after a write was refused, if that shows that it is not what
// was read: others write too, and a write whose answer was lost may have succeeded. Only this object
// is read, since writes of all nodes fail while the API server is overloaded.
func (l *Lister) readAgain(ctx context.Context, slot int, refused error) error {
	var object *stowage.LocalDisk
	switch {
	case absent(refused):
	case apierrors.IsAlreadyExists(refused), apierrors.IsConflict(refused):
		var err error
		if object, err = l.get(ctx, slot); err != nil {
			return errors.Join(refused, err)
		}
	default:
		return refused
	}
	if l.objects[slot] = object; object == nil {
		delete(l.objects, slot)
	}
	return refused
}

// remember stores which slots are in use, before objects are created in those of next.
func (l *Lister) remember(next map[int]stowage.LocalDiskStatus) error {
	used := 0
	for slot := range l.objects {
		used = max(used, slot+1)
	}
	for slot := range next {
		used = max(used, slot+1)
	}
	if used == l.Slots.DiskSlots() {
		return nil
	}
	return l.Slots.PutDiskSlots(used)
}

// name returns the name of the object of a slot.
func (l *Lister) name(slot int) (string, error) {
	name := stowage.LocalDiskName(l.Node, slot)
	if name == "" {
		return "", fmt.Errorf("name a LocalDisk: the name of node %s has more than 250 characters; turn off listDisks", l.Node)
	}
	return name, nil
}

// statuses returns what was last written, by slot.
func (l *Lister) statuses() map[int]stowage.LocalDiskStatus {
	known := map[int]stowage.LocalDiskStatus{}
	for slot, object := range l.objects {
		known[slot] = object.Status
	}
	return known
}

// statusOf returns what was last written of a slot; the zero value for nothing.
func (l *Lister) statusOf(slot int) stowage.LocalDiskStatus {
	if object := l.objects[slot]; object != nil {
		return object.Status
	}
	return stowage.LocalDiskStatus{}
}

// missing returns the status of the disks that have not been found for missingAfter, by slot.
func (l *Lister) missing(slots map[disk.Identity]int, now time.Time) map[int]stowage.LocalDiskStatus {
	found := map[int]bool{}
	seen := map[disk.Identity]time.Time{}
	for id, slot := range slots {
		found[slot], seen[id] = true, now
	}
	gone := map[int]stowage.LocalDiskStatus{}
	for slot, object := range l.objects {
		id := disk.Identity(object.Status.Identity)
		if found[slot] || id == "" {
			continue
		}
		last, ok := l.seen[id]
		if !ok {
			last = now
		}
		if seen[id] = last; now.Sub(last) >= missingAfter {
			gone[slot] = decide.MissingDisk(object.Status)
		}
	}
	l.seen = seen
	return gone
}

// describe returns the status of a disk. It reads the disk if its content decides, and may have
// changed since it was read; contents gets what was read.
func (l *Lister) describe(ctx context.Context, devices []disk.BlockDevice, scanned *disk.Scanned, last stowage.LocalDiskStatus, contents map[disk.Identity]reading) stowage.LocalDiskStatus {
	d := devices[0]
	entry := decide.EntryOf(&d, scanned.Facts)
	if entry == nil && last.State == stowage.LocalDiskAssigned && scanned.Trouble[last.Class] != nil {
		return last // the directory with its entry cannot be read
	}
	problem := decide.Ineligible(devices, l.KubeletDir)
	if problem == nil {
		problem = decide.ContestedBy(&d, scanned.Facts)
	}
	if entry != nil || problem != nil {
		status := decide.DiskStatus(devices, entry, problem, nil)
		if entry != nil {
			status = decide.WithHealth(status, new(l.Health(entry.Identity)), entry.Identity)
		}
		return status
	}
	was, ok := l.contents[d.Identity]
	if !ok || was.content != d.Content || was.found.Problem != nil && time.Since(was.at) >= rereadProblem {
		was = reading{content: d.Content, found: l.Devices.ReadContent(ctx, d), at: time.Now()}
	}
	contents[d.Identity] = was
	return decide.DiskStatus(devices, nil, nil, &was.found)
}

// write writes the status of a slot, if it has changed.
func (l *Lister) write(ctx context.Context, slot int, status stowage.LocalDiskStatus) error {
	last := l.statusOf(slot)
	now := metav1.Now()
	status.Since = &now
	if last.Identity == status.Identity && last.State == status.State && last.Reason == status.Reason && last.Health == status.Health {
		status.Since = last.Since
	}
	if equality.Semantic.DeepEqual(last, status) {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if l.objects[slot] == nil {
		if err := l.create(ctx, slot); err != nil {
			return err
		}
	}
	object := l.objects[slot].DeepCopy()
	object.Status = status
	updated, err := l.Disks.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		return l.readAgain(ctx, slot, fmt.Errorf("update LocalDisk %s: %w", object.Name, err))
	}
	l.objects[slot] = updated
	klog.FromContext(ctx).V(2).Info("Wrote the status of a disk", "disk", object.Name, "device", status.Device, "state", status.State, "reason", status.Reason, "health", status.Health)
	return nil
}

func (l *Lister) create(ctx context.Context, slot int) error {
	owner, err := l.Owner(ctx)
	if err != nil {
		return err
	}
	name, err := l.name(slot)
	if err != nil {
		return err
	}
	object, err := l.Disks.Create(ctx, &stowage.LocalDisk{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec:       stowage.LocalDiskSpec{NodeName: l.Node},
	}, metav1.CreateOptions{})
	if err != nil {
		return l.readAgain(ctx, slot, fmt.Errorf("create LocalDisk %s: %w", name, err))
	}
	l.objects[slot] = object
	return nil
}

// logOthers logs which devices are not listed, and why, when that changes.
func (l *Lister) logOthers(ctx context.Context, others map[string]*disk.Problem, omitted int) {
	logger := klog.FromContext(ctx)
	for _, path := range slices.Sorted(maps.Keys(others)) {
		level := 2
		if others[path].Reason == disk.NoHardware {
			level = 4 // there may be very many
		}
		if last := l.others[path]; last == nil || *last != *others[path] {
			logger.V(level).Info("Block device is not listed", "device", path, "reason", others[path].Reason, "message", others[path].Message)
		}
	}
	if omitted > 0 && omitted != l.omitted {
		logger.Info("The node has more disks than can be listed", "limit", stowage.MaxLocalDisks, "omitted", omitted, logkeys.Node, klog.KRef("", l.Node))
	}
	metrics.SetUnlistedDisks(omitted)
	l.others, l.omitted = others, omitted
}
