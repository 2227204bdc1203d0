// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a node with disks, and the API server.
type node struct {
	mu       sync.Mutex
	devices  map[string]disk.BlockDevice // by path
	contents map[string]disk.Superblock
	health   map[disk.Identity]disk.Health
	enabled  bool
	objects  map[string]stowage.LocalDisk
	noKind   bool
	refused  map[string]error // requests
	lost     map[string]bool  // requests that are done, but not answered the first time
	slots    int              // in the records
	requests []string
	reads    []string
}

func newNode() *node {
	return &node{devices: map[string]disk.BlockDevice{}, contents: map[string]disk.Superblock{}, enabled: true, objects: map[string]stowage.LocalDisk{}}
}

// attach adds a disk, or changes it.
func (n *node) attach(path string, identity disk.Identity, content string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.devices[path] = disk.BlockDevice{Path: path, Number: path, Identity: identity, Transport: disk.NVMe, Bytes: 1 << 30, Content: content}
}

func (n *node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *node) BlockDevices() ([]disk.BlockDevice, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.devices)), nil
}

func (n *node) ReadContent(_ context.Context, d disk.BlockDevice) disk.Superblock {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads = append(n.reads, d.Path)
	return n.contents[d.Path]
}

var resource = stowage.Resource("localdisks")

// request records a request.
func (n *node) request(format string, args ...any) error {
	n.requests = append(n.requests, fmt.Sprintf(format, args...))
	if n.noKind {
		return apierrors.NewGenericServerResponse(404, "get", resource, "", "the server could not find the requested resource", 0, true)
	}
	return n.refused[n.requests[len(n.requests)-1]]
}

// answer returns the error of a client that gets no answer to the last request.
func (n *node) answer() error {
	last := n.requests[len(n.requests)-1]
	if n.lost[last] {
		delete(n.lost, last)
		return apierrors.NewTimeoutError("no answer", 0)
	}
	return nil
}

func (n *node) Get(_ context.Context, name string, _ metav1.GetOptions) (*stowage.LocalDisk, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.request("get %s", name); err != nil {
		return nil, err
	}
	object, exists := n.objects[name]
	if !exists {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return object.DeepCopy(), nil
}

func (n *node) DiskSlots() int { n.mu.Lock(); defer n.mu.Unlock(); return n.slots }

func (n *node) PutDiskSlots(slots int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slots = slots
	return nil
}

// gets are the requests that read the slots from 00 to last.
func gets(last int) []string {
	var all []string
	for slot := range last + 1 {
		all = append(all, fmt.Sprintf("get a.%02x", slot))
	}
	return all
}

func (n *node) Create(_ context.Context, d *stowage.LocalDisk, _ metav1.CreateOptions) (*stowage.LocalDisk, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.request("create %s", d.Name); err != nil {
		return nil, err
	}
	if _, exists := n.objects[d.Name]; exists {
		return nil, apierrors.NewAlreadyExists(resource, d.Name)
	}
	created := d.DeepCopy()
	created.ResourceVersion = "1"
	n.objects[d.Name] = *created
	return created.DeepCopy(), n.answer()
}

func (n *node) UpdateStatus(_ context.Context, d *stowage.LocalDisk, _ metav1.UpdateOptions) (*stowage.LocalDisk, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.request("update %s %s %s", d.Name, d.Status.Device, d.Status.State); err != nil {
		return nil, err
	}
	last, exists := n.objects[d.Name]
	switch {
	case !exists:
		return nil, apierrors.NewNotFound(resource, d.Name)
	case last.ResourceVersion != d.ResourceVersion:
		return nil, apierrors.NewConflict(resource, d.Name, errors.New("it was changed"))
	}
	updated := d.DeepCopy()
	updated.ResourceVersion += "1"
	n.objects[d.Name] = *updated
	return updated.DeepCopy(), n.answer()
}

// start runs a lister, and returns how to stop it.
func (n *node) start(t *testing.T) (l *Lister, stop func()) {
	t.Helper()
	l = New(Config{
		Node: "a", KubeletDir: "/var/lib/kubelet", Devices: n, Disks: n, Slots: n,
		Health:  func(identity disk.Identity) disk.Health { n.mu.Lock(); defer n.mu.Unlock(); return n.health[identity] },
		Enabled: func() bool { n.mu.Lock(); defer n.mu.Unlock(); return n.enabled },
		Owner: func(context.Context) (metav1.OwnerReference, error) {
			return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "a", UID: "u"}, nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	return l, func() { cancel(); <-done }
}

// requested returns the requests since the last call.
func (n *node) requested() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.requests
	n.requests = nil
	return all
}

// step is something that happens on the node, and what is requested in the time after it.
type step struct {
	do      func(n *node, scanned *disk.Scanned)
	restart bool
	after   time.Duration // 30 s if 0
	want    []string
}

// scansEvery is the time between two scans.
const scansEvery = 15 * time.Second

func TestLister(t *testing.T) {
	const a, b = "wwn:a", "wwn:b"
	two := step{
		do:   func(n *node, _ *disk.Scanned) { n.attach("/dev/sda", a, "1"); n.attach("/dev/sdb", b, "1") },
		want: append(gets(gap-1), "create a.00", "update a.00 /dev/sda Eligible", "create a.01", "update a.01 /dev/sdb Eligible"),
	}
	remove := func(n *node, _ *disk.Scanned) { n.set(func() { delete(n.devices, "/dev/sda") }) }
	linked := func(_ *node, s *disk.Scanned) {
		s.Facts = map[disk.Key]disk.Fact{{Class: "fast", Name: "x"}: {Key: disk.Key{Class: "fast", Name: "x"}, HostPath: "/mnt/x", Identity: a}}
	}
	tests := map[string][]step{
		"a restart writes nothing": {two, {restart: true, want: gets(1)}},
		"a restart after the records are lost": {two, {
			do: func(n *node, _ *disk.Scanned) { n.set(func() { n.slots = 0 }) }, restart: true, want: gets(gap + 1),
		}},
		"a restart after all slots but a late one are deleted": {two, {
			do: func(n *node, _ *disk.Scanned) {
				n.set(func() {
					d := n.objects["a.01"]
					d.Name = "a.28"
					n.objects, n.slots = map[string]stowage.LocalDisk{"a.28": d}, 0x29
					delete(n.devices, "/dev/sda")
				})
			}, restart: true, want: gets(0x28),
		}},
		"an object that an administrator makes in a free slot": {two, {
			do: func(n *node, _ *disk.Scanned) {
				n.set(func() {
					n.objects["a.02"] = stowage.LocalDisk{ObjectMeta: metav1.ObjectMeta{Name: "a.02"}, Spec: stowage.LocalDiskSpec{NodeName: "a"}}
				})
				n.attach("/dev/sdc", "wwn:c", "1")
			},
			want: []string{"create a.02", "get a.02", "update a.02 /dev/sdc Eligible"},
		}},
		"names of devices that change with a restart": {two, {
			do:   func(n *node, _ *disk.Scanned) { n.attach("/dev/sda", b, "2"); n.attach("/dev/sdb", a, "2") },
			want: []string{"update a.00 /dev/sdb Eligible", "update a.01 /dev/sda Eligible"},
		}},
		"a disk that is gone for a moment": {two, {do: remove}, {do: func(n *node, _ *disk.Scanned) { n.attach("/dev/sda", a, "1") }, after: 5 * time.Minute}},
		"a disk that is removed": {
			two, {do: remove, after: 5 * time.Minute, want: []string{"update a.00 /dev/sda Missing"}},
			{restart: true, after: 5 * time.Minute, want: gets(1)},
			{do: func(n *node, _ *disk.Scanned) { n.attach("/dev/sdc", a, "1") }, want: []string{"update a.00 /dev/sdc Eligible"}},
		},
		"a disk that becomes an entry of a class, whose directory cannot be read later": {
			two, {do: linked, want: []string{"update a.00 /dev/sda Assigned"}},
			{do: func(_ *node, s *disk.Scanned) {
				s.Facts, s.Trouble = nil, map[string]*disk.Problem{"fast": disk.Problemf(disk.Unreadable, "gone")}
			}},
			{do: func(_ *node, s *disk.Scanned) { s.Trouble = nil }, want: []string{"update a.00 /dev/sda Eligible"}},
		},
		"a disk of an entry that shows errors": {
			two, {do: linked, want: []string{"update a.00 /dev/sda Assigned"}},
			{
				do: func(n *node, _ *disk.Scanned) {
					n.set(func() { n.health = map[disk.Identity]disk.Health{a: {State: disk.Degraded, Reason: disk.DiskErrors}} })
				},
				want: []string{"update a.00 /dev/sda Assigned"},
			},
			{restart: true, want: gets(1)},
		},
		"a file system that is made on a disk": {
			two, {
				do: func(n *node, _ *disk.Scanned) {
					n.set(func() { n.contents["/dev/sda"] = disk.Superblock{Other: "LVM2_member"} })
					n.attach("/dev/sda", a, "2")
				},
				want: []string{"update a.00 /dev/sda Ineligible"},
			},
		},
		"an object that is deleted": {
			two, {do: func(n *node, _ *disk.Scanned) { n.set(func() { delete(n.objects, "a.00") }) }},
			{after: reread, want: append(gets(1), "create a.00", "update a.00 /dev/sda Eligible")},
		},
		"an object that is deleted, and its disk changes": {two, {
			do:   func(n *node, s *disk.Scanned) { n.set(func() { delete(n.objects, "a.00") }); linked(n, s) },
			want: []string{"update a.00 /dev/sda Assigned", "create a.00", "update a.00 /dev/sda Assigned"},
		}},
		"answers that are lost": {{
			do: func(n *node, s *disk.Scanned) {
				n.set(func() { n.lost = map[string]bool{"create a.00": true, "update a.01 /dev/sdb Eligible": true} })
				two.do(n, s)
			},
			after: 3 * time.Minute,
			want: append(gets(gap-1), "create a.00", "create a.00", "get a.00", "create a.01", "update a.01 /dev/sdb Eligible",
				"update a.00 /dev/sda Eligible", "update a.01 /dev/sdb Eligible", "get a.01"),
		}},
		"a disk whose status is refused": {{
			do: func(n *node, s *disk.Scanned) {
				n.set(func() {
					n.refused = map[string]error{"update a.00 /dev/sda Eligible": apierrors.NewInvalid(schema.GroupKind{Kind: "LocalDisk"}, "a.00", nil)}
				})
				two.do(n, s)
			},
			after: 5 * time.Minute, // four retries
			want: append(append(gets(gap-1), "create a.00", "update a.00 /dev/sda Eligible", "create a.01", "update a.01 /dev/sdb Eligible"),
				slices.Repeat([]string{"update a.00 /dev/sda Eligible"}, 4)...),
		}},
		"no kind LocalDisk": {{
			do:    func(n *node, _ *disk.Scanned) { n.attach("/dev/sda", a, "1"); n.set(func() { n.noKind = true }) },
			after: time.Minute, want: []string{"get a.00", "get a.00", "get a.00"},
		}, {
			do:    func(n *node, _ *disk.Scanned) { n.set(func() { n.noKind = false }) },
			after: 2 * time.Minute, want: append(gets(gap-1), "create a.00", "update a.00 /dev/sda Eligible"),
		}},
		"not enabled": {
			{do: func(n *node, _ *disk.Scanned) { n.attach("/dev/sda", a, "1"); n.set(func() { n.enabled = false }) }, after: time.Hour},
			{do: func(n *node, _ *disk.Scanned) { n.set(func() { n.enabled = true }) }, want: append(gets(gap-1), "create a.00", "update a.00 /dev/sda Eligible")},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, scanned := newNode(), disk.Scanned{}
				l, stop := n.start(t)
				for i, s := range steps {
					if s.restart {
						stop()
						l, stop = n.start(t)
					}
					if s.do != nil {
						s.do(n, &scanned)
					}
					wait := max(s.after, 2*scansEvery)
					if i == 0 || s.restart {
						wait += startDelay
					}
					for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(scansEvery) { //nolint:forbidigo // in a synctest bubble
						l.Scanned(scanned)
					}
					synctest.Wait()
					if diff := cmp.Diff(s.want, n.requested()); diff != "" {
						t.Errorf("step %d (-want +got):\n%s", i, diff)
					}
				}
				stop()
			})
		})
	}
}

// TestLongNodeName: a node whose disks cannot have names gets a clear error.
func TestLongNodeName(t *testing.T) {
	n := newNode()
	n.attach("/dev/sda", "wwn:a", "1")
	l := New(Config{
		Node: strings.Repeat("a", 251), Devices: n, Disks: n, Slots: n, Enabled: func() bool { return true },
		Owner: func(context.Context) (metav1.OwnerReference, error) { return metav1.OwnerReference{}, nil },
	})
	l.Scanned(disk.Scanned{})
	if err := l.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 250 characters") {
		t.Errorf("the error is %v", err)
	}
}

// TestUnlisted: disks beyond those that can be listed are counted, until listing is turned off.
func TestUnlisted(t *testing.T) {
	metrics.RegisterProvisioner()
	n := newNode()
	for i := range stowage.MaxLocalDisks + 3 {
		n.attach(fmt.Sprintf("/dev/sd%d", i), disk.Identity(fmt.Sprintf("wwn:%d", i)), "1")
	}
	l := New(Config{
		Node: "a", Devices: n, Disks: n, Slots: n, Enabled: func() bool { return n.enabled },
		Owner: func(context.Context) (metav1.OwnerReference, error) { return metav1.OwnerReference{}, nil },
	})
	l.Scanned(disk.Scanned{})
	for _, want := range []int{3, 0} {
		n.enabled = want > 0
		if err := l.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("# HELP %[1]s [ALPHA] %[2]s\n# TYPE %[1]s gauge\n%[1]s %[3]d\n", "stowage_provisioner_unlisted_disks",
			"Disks of the node that are not listed as LocalDisks because it has more than 256; 0 if none are listed.", want)
		if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(text), "stowage_provisioner_unlisted_disks"); err != nil {
			t.Error(err)
		}
	}
}

// TestReads: a disk is read when it may have changed, and one that cannot be read every ten
// minutes.
func TestReads(t *testing.T) {
	tests := map[string]struct {
		content disk.Superblock
		change  bool
		want    int
	}{
		"a blank disk is read once":         {want: 1},
		"and again when it is written to":   {change: true, want: 2},
		"a disk that answers with an error": {content: disk.Superblock{Problem: disk.Problemf(disk.IOError, "bad")}, want: 6},
		"a disk with a file system once":    {content: disk.Superblock{Format: disk.Format{Type: "xfs", UUID: "u"}}, want: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				n.attach("/dev/sda", "wwn:a", "1")
				n.contents["/dev/sda"] = tc.content
				l, stop := n.start(t)
				for minute := range 60 {
					if minute == 30 && tc.change {
						n.attach("/dev/sda", "wwn:a", "2")
					}
					l.Scanned(disk.Scanned{})
					time.Sleep(time.Minute) //nolint:forbidigo // in a synctest bubble
				}
				stop()
				if got := len(n.reads); got != tc.want {
					t.Errorf("read %d times, want %d", got, tc.want)
				}
			})
		})
	}
}
