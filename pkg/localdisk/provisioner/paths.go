// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/provisioner/scan"
	"stowage.dev/stowage/pkg/localdisk/provisioner/status"
)

// pathTable has the state of every path on the node. Its methods are safe for concurrent use.
type pathTable struct {
	mu     sync.Mutex
	byPath map[string]*pathState
	// What the last scan found of the node as a whole. The maps are replaced, not changed.
	present map[disk.Identity]bool   // disks that are attached
	trouble map[string]*disk.Problem // by class, why its directory cannot be read
	read    map[string]bool          // classes whose directory was read
}

// pathState is what the provisioner keeps of a path from one decision to the next.
type pathState struct {
	observed scan.Observation
	// identified is the last fact with an identity; nil if nothing was at the path since.
	identified *disk.Fact
	// entry is what the report shows; nil until the path was decided on.
	entry *status.Entry
	// expected is a write that the informer has not shown yet.
	expected expectation
	recheck  recheck
	// unmanagedPV names a volume of the path that this provisioner does not manage.
	unmanagedPV string
	// asking reports whether a read of the disk has not returned yet.
	asking bool
}

func newPathTable() *pathTable { return &pathTable{byPath: map[string]*pathState{}} }

// snapshot returns a copy of the state of a path, the disks that the last scan found, and
// whether it read the directory of a class. The caller does not change the map.
func (t *pathTable) snapshot(path, class string) (state pathState, present map[disk.Identity]bool, read bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byPath[path]; s != nil {
		state = *s
	}
	if state.observed.Fact != nil {
		state.observed.Fact = new(*state.observed.Fact)
	}
	return state, t.present, t.read[class]
}

// update changes the state of a path under mu.
func (t *pathTable) update(path string, change func(*pathState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.updateLocked(path, change)
}

// updateLocked drops a state that is empty after the change. The caller holds mu.
func (t *pathTable) updateLocked(path string, change func(*pathState)) {
	s := t.byPath[path]
	if s == nil {
		s = &pathState{}
	}
	change(s)
	if *s == (pathState{}) {
		delete(t.byPath, path)
	} else {
		t.byPath[path] = s
	}
}

// scanned stores what a scan found, and returns the paths that have changed and whether the next
// scan has to be soon. Scans that are closer together than apart count as one.
func (t *pathTable) scanned(scanned disk.Scanned, folders scan.Folders, known []disk.Known, apart time.Duration) (changed []string, soon bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := scan.State{Paths: map[string]scan.Observation{}, Read: t.read}
	for path, s := range t.byPath {
		last.Paths[path] = s.observed
	}
	next, changed, soon := scan.Compare(last, scanned, folders, known, apart)
	for path, s := range t.byPath {
		if key, ok := folders.KeyOf(path); s.entry.RetriesOnScan() && (!ok || next.Read[key.Class]) {
			changed = append(changed, path)
		}
		if _, ok := next.Paths[path]; !ok {
			next.Paths[path] = scan.Observation{}
		}
	}
	t.present, t.trouble, t.read = map[disk.Identity]bool{}, scanned.Trouble, next.Read
	for path, o := range next.Paths {
		t.updateLocked(path, func(s *pathState) {
			s.observed = o
			if o.Fact == nil || o.Fact.Identity != "" {
				s.identified = o.Fact
			}
		})
		if o.Fact != nil {
			t.present[o.Fact.Identity] = true
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed), soon
}

// identities returns the disks that the last scan found. The caller does not change them.
func (t *pathTable) identities() map[disk.Identity]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.present
}

// disks returns what the last scan found, with an identity. A disk that does not answer is the one
// that was at its path before.
func (t *pathTable) disks() []disk.Fact {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []disk.Fact
	for _, s := range t.byPath {
		fact := s.observed.Fact
		if fact != nil && fact.Identity == "" && fact.Problem != nil && (fact.Problem.Reason == disk.IOError || fact.Problem.Reason == disk.TimedOut) {
			fact = s.identified
		}
		if fact != nil && fact.Identity != "" {
			all = append(all, *fact)
		}
	}
	return all
}

// withDisk returns the paths at which the last scan found a disk of a class; of any class if it
// is empty.
func (t *pathTable) withDisk(class string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []string
	for path, s := range t.byPath {
		if fact := s.observed.Fact; fact != nil && (class == "" || fact.Class == class) {
			found = append(found, path)
		}
	}
	return found
}

// enqueue enqueues the paths of the disks and volumes of a class; of all classes if it is empty.
func (p *Provisioner) enqueue(class string) {
	for _, path := range p.paths.withDisk(class) {
		p.queue.Add(path)
	}
	conf := p.current()
	for _, object := range p.volumes.GetStore().List() {
		if v, ok := p.volumes.read(conf, object); class == "" && pathOf(object) != "" || ok && v.Key.Class == class {
			p.queue.Add(pathOf(object))
		}
	}
}

// UpdateEntry implements status.Paths.
func (t *pathTable) UpdateEntry(path string, change func(*status.Entry) *status.Entry) {
	t.update(path, func(s *pathState) { s.entry = change(s.entry) })
}

// Entries implements status.Paths.
func (t *pathTable) Entries() map[string]status.Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := map[string]status.Entry{}
	for path, s := range t.byPath {
		if s.entry != nil {
			found[path] = *s.entry
		}
	}
	return found
}

// Directory implements status.Paths.
func (t *pathTable) Directory(class string) (read bool, problem *disk.Problem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read[class], t.trouble[class]
}

// allDecided reports whether every disk and every path of volumes has been decided on.
func (t *pathTable) allDecided(volumes []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, path := range volumes {
		if t.byPath[path] == nil || !t.byPath[path].entry.Decided() {
			return false
		}
	}
	for _, s := range t.byPath {
		if fact := s.observed.Fact; fact != nil && fact.Problem == nil && !s.entry.Decided() {
			return false
		}
	}
	return true
}

// expectationTimeout is when an expectation expires: the volume may have been deleted while
// the watch was interrupted, so that no event meets the expectation.
const expectationTimeout = 30 * time.Second

// expectation is the provisioner's own write of a volume that the informer has not shown yet.
// A path with one is not decided on: its volume would seem to be missing, or not to be
// deleted.
type expectation struct {
	uid types.UID
	// known reports whether the informer has shown the volume before. If it does not show it
	// now, the volume is gone, which the informer may report before the request returns.
	known bool
	// version is the least resourceVersion that meets the expectation; empty means that a
	// deletionTimestamp does.
	version string
	at      time.Time
}

// write is what the provisioner did to a volume.
type write int

const (
	created write = iota
	updated
	deleted // the request, which only sets a deletionTimestamp
)

// expect is called with a volume as the API server returned it, or the informer for deleted.
func (t *pathTable) expect(w write, volume *corev1.PersistentVolume) {
	x := expectation{uid: volume.UID, known: w != created, at: time.Now()}
	if w != deleted {
		x.version = volume.ResourceVersion
	}
	t.update(pathOf(volume), func(s *pathState) { s.expected = x })
}

// shown is called with a volume that the informer shows.
func (t *pathTable) shown(volume *corev1.PersistentVolume) {
	t.update(pathOf(volume), func(s *pathState) {
		if s.expected.met(volume) {
			s.expected = expectation{}
		}
	})
}

// gone is called with a volume that the informer does not show any more.
func (t *pathTable) gone(volume *corev1.PersistentVolume) {
	t.update(pathOf(volume), func(s *pathState) {
		if s.expected.uid == volume.UID {
			s.expected = expectation{}
		}
	})
}

// pendingWrite reports whether a path waits for the informer to show a write, and when the
// expectation expires. shown are the volumes of the path that the informer has now, since it
// may have shown the write before the request returned.
func (t *pathTable) pendingWrite(path string, shown []*corev1.PersistentVolume) (left time.Duration, pending bool) {
	t.update(path, func(s *pathState) {
		x := &s.expected
		if *x == (expectation{}) {
			return
		}
		gone := x.known && !slices.ContainsFunc(shown, func(v *corev1.PersistentVolume) bool { return v.UID == x.uid })
		left = expectationTimeout - time.Since(x.at)
		pending = !gone && !slices.ContainsFunc(shown, x.met) && left > 0
		if !pending {
			s.expected, left = expectation{}, 0
		}
	})
	return left, pending
}

func (x *expectation) met(volume *corev1.PersistentVolume) bool {
	if *x == (expectation{}) || volume.UID != x.uid {
		return false
	}
	if x.version == "" {
		return volume.DeletionTimestamp != nil
	}
	order, err := resourceversion.CompareResourceVersion(volume.ResourceVersion, x.version)
	return err != nil || order >= 0
}
