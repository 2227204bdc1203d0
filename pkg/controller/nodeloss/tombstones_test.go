// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/loop"
)

// ownedVolume is a volume as the provisioner of a node publishes it.
func ownedVolume(name, node, identity string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: name, Finalizers: []string{wellknown.LocalVolumeFinalizer}, Labels: map[string]string{wellknown.NodeLabel: localpv.NodeHash(node)},
		Annotations: map[string]string{wellknown.NodeNameAnnotation: node, wellknown.DiskIdentityAnnotation: identity, localpv.ProvisionedByAnnotation: localpv.ProvisionedBy(node)},
	}}
}

// TestLaterVolumes: whether a later volume of a disk resolves its tombstone of node lost.
func TestLaterVolumes(t *testing.T) {
	t.Parallel()
	has := func(volume, identity string, state stowage.EntryState) []stowage.Entry {
		return []stowage.Entry{{Identity: "wwn:other", Volume: "other"}, {Volume: volume, Identity: identity, State: state}}
	}
	for name, tc := range map[string]struct {
		node    string
		entries []stowage.Entry
		state   stowage.TombstoneState
		want    bool
	}{
		"its node has the disk":                          {node: "a", entries: has("pv", "wwn:1", stowage.EntryBound), want: true},
		"its node had the disk":                          {node: "a", entries: has("pv", "wwn:1", stowage.EntryMissing), want: true},
		"its node does not say so":                       {node: "a"},
		"its node says so of another disk":               {node: "a", entries: has("pv", "wwn:2", stowage.EntryBound)},
		"its node has the disk, without this volume":     {node: "a", entries: has("", "wwn:1", stowage.EntrySkipped)},
		"of the lost node itself":                        {node: "lost", want: true},
		"its node has the disk, whose data was retained": {node: "a", entries: has("pv", "wwn:1", stowage.EntryBound), state: stowage.TombstoneRetained},
		"of the lost node, which retained the data":      {node: "lost", state: stowage.TombstoneRetained},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := ofDisks()
			c.sweeps, c.queue = loop.NewQueue("sweeps", retryFirst, retryLast), loop.NewQueue("volumes", retryFirst, retryLast)
			defer c.sweeps.ShutDown()
			defer c.queue.ShutDown()
			since := metav1.NewTime(time.Now().Add(-time.Hour))
			tombstone := stowage.Tombstone{Identity: "wwn:1", VolumeUID: "old", Since: &since, State: tc.state}
			lost := &stowage.LocalDiskTombstone{
				ObjectMeta: metav1.ObjectMeta{Name: "ldt-1"}, Spec: stowage.LocalDiskTombstoneSpec{NodeName: "lost", Tombstone: tombstone},
			}
			volume := ownedVolume("pv", tc.node, "wwn:1")
			volume.CreationTimestamp = metav1.Now()
			report := &stowage.LocalDiskReport{
				ObjectMeta: metav1.ObjectMeta{Name: "a.page-2"}, Spec: stowage.LocalDiskReportSpec{NodeName: "a", Page: 2},
				Status: stowage.LocalDiskReportStatus{Entries: tc.entries},
			}
			first := &stowage.LocalDiskReport{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: stowage.LocalDiskReportSpec{NodeName: "a", Page: 1}}
			store := c.ReportInformer.GetIndexer()
			if err := errors.Join(c.volumes.GetIndexer().Add(volume), c.TombstoneInformer.GetIndexer().Add(lost), store.Add(first), store.Add(report)); err != nil {
				t.Fatal(err)
			}
			if got := c.resolved(tombstone, "lost"); got != tc.want {
				t.Errorf("resolved is %t, want %t", got, tc.want)
			}
			if c.reportChanged(nil, report); tc.want && tc.node == "a" && tc.entries[1].State != stowage.EntryMissing && c.sweeps.Len() == 0 {
				t.Error("the report requests no sweep")
			}
		})
	}
}

// TestVolumesRequestSweeps: changes of volumes request a sweep, even if the volume was bound before
// it was observed as Available.
func TestVolumesRequestSweeps(t *testing.T) {
	t.Parallel()
	bound := ownedVolume("pv", "a", "wwn:1")
	bound.Status.Phase = corev1.VolumeBound
	others := ownedVolume("pv", "a", "wwn:1")
	others.Finalizers = nil
	for name, tc := range map[string]struct {
		volume *corev1.PersistentVolume
		want   int
	}{
		"bound":                   {bound, 1},
		"without a disk identity": {ownedVolume("pv", "a", ""), 0},
		"of others":               {others, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := ofDisks()
			c.sweeps, c.queue = loop.NewQueue("sweeps", retryFirst, retryLast), loop.NewQueue("volumes", retryFirst, retryLast)
			defer c.sweeps.ShutDown()
			defer c.queue.ShutDown()
			c.volumeChanged(nil, tc.volume)
			if got := c.sweeps.Len(); got != tc.want {
				t.Errorf("%d sweeps are requested, want %d", got, tc.want)
			}
		})
	}
}

// apiServer has LocalDiskReports and LocalDiskTombstones.
type apiServer struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // by path
	version int
	writes  []string
}

const reportsPath, tombstonesPath = "/apis/stowage.dev/v1alpha1/localdiskreports", "/apis/stowage.dev/v1alpha1/localdisktombstones"

// withAPI returns a controller with empty informers, and its API server.
func withAPI(t *testing.T) (*Controller, *apiServer) {
	t.Helper()
	api := &apiServer{objects: map[string]*unstructured.Unstructured{}}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	c, _ := ofDisks()
	var err, other error
	c.Reports, err = diskreports.NewClient(&rest.Config{Host: server.URL})
	c.Tombstones, other = diskreports.NewTombstoneClient(&rest.Config{Host: server.URL})
	if err := errors.Join(err, other); err != nil {
		t.Fatal(err)
	}
	c.lastEvents = map[string]string{}
	return c, api
}

// put creates or replaces an object, and sets its version.
func (a *apiServer) put(object metav1.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	path := tombstonesPath
	if _, ok := object.(*stowage.LocalDiskReport); ok {
		path = reportsPath
	}
	a.version++
	object.SetResourceVersion(strconv.Itoa(a.version))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(err) // of a type of this test
	}
	a.objects[path+"/"+object.GetName()] = &unstructured.Unstructured{Object: content}
}

// ServeHTTP answers as an API server does.
func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body := &unstructured.Unstructured{}
	if r.Method != http.MethodGet {
		a.writes = append(a.writes, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/apis/stowage.dev/v1alpha1/"))
		_ = json.NewDecoder(r.Body).Decode(&body.Object) // an empty body has no version
	}
	path := r.URL.Path
	if r.Method == http.MethodPost {
		path += "/" + body.GetName()
	}
	found := a.objects[path]
	code, reason := http.StatusOK, metav1.StatusReason("")
	switch {
	case r.Method == http.MethodPost && found != nil:
		code, reason = http.StatusConflict, metav1.StatusReasonAlreadyExists
	case r.Method != http.MethodPost && found == nil:
		code, reason = http.StatusNotFound, metav1.StatusReasonNotFound
	case r.Method == http.MethodPut && body.GetResourceVersion() != found.GetResourceVersion():
		code, reason = http.StatusConflict, metav1.StatusReasonConflict
	case r.Method == http.MethodDelete:
		if version, _, _ := unstructured.NestedString(body.Object, "preconditions", "resourceVersion"); version != found.GetResourceVersion() {
			code, reason = http.StatusConflict, metav1.StatusReasonConflict
		} else {
			delete(a.objects, path)
		}
	case r.Method != http.MethodGet:
		a.version++
		body.SetResourceVersion(strconv.Itoa(a.version))
		a.objects[path], found = body, body
	}
	var answer any = found
	if code != http.StatusOK {
		answer = metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code),
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // a reader that has left is reported nothing
}

// tombstones returns those of the API server, by name.
func (a *apiServer) tombstones(t *testing.T, c *Controller) map[string]stowage.LocalDiskTombstoneSpec {
	t.Helper()
	found := map[string]stowage.LocalDiskTombstoneSpec{}
	for path := range a.objects {
		name, ok := strings.CutPrefix(path, tombstonesPath+"/")
		if !ok {
			continue
		}
		tombstone, err := c.Tombstones.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found[name] = tombstone.Spec
	}
	return found
}

// tombstoneObject is a tombstone of a volume.
func tombstoneObject(name, node, identity, uid string) *stowage.LocalDiskTombstone {
	return &stowage.LocalDiskTombstone{
		TypeMeta:   metav1.TypeMeta{APIVersion: stowage.SchemeGroupVersion.String(), Kind: "LocalDiskTombstone"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: stowage.LocalDiskTombstoneSpec{NodeName: node, Tombstone: stowage.Tombstone{
			Identity: identity, VolumeUID: uid, State: stowage.TombstonePublished, Since: new(metav1.NewTime(sweepTime.Add(-time.Hour))),
		}},
	}
}

var sweepTime = time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)

// TestAddTombstone: the tombstone of a lost volume replaces an older one of the same disk. A node has
// a limited number, and an identity that the schema does not allow is never shortened: such a
// tombstone would match no disk.
func TestAddTombstone(t *testing.T) {
	t.Parallel()
	name := stowage.TombstoneName("a", "wwn:1")
	long := "wwn:" + strings.Repeat("1", 9000)
	for what, tc := range map[string]struct {
		identity string
		before   *stowage.LocalDiskTombstone
		others   int // of the node, in the informer
		policy   corev1.PersistentVolumeReclaimPolicy
		want     stowage.TombstoneState // none: it is not written
	}{
		"the first of its disk": {want: stowage.TombstonePublished},
		"of policy Retain":      {policy: corev1.PersistentVolumeReclaimRetain, want: stowage.TombstoneRetained},
		"the policy is Retain since it was written": {
			policy: corev1.PersistentVolumeReclaimRetain, before: tombstoneObject(name, "a", "wwn:1", "uid"), want: stowage.TombstoneRetained,
		},
		"there is one of a former volume": {before: tombstoneObject(name, "a", "wwn:1", "former"), want: stowage.TombstonePublished},
		"the node has as many as it may":  {others: stowage.MaxTombstones},
		"it has, and this one replaces another": {
			others: stowage.MaxTombstones, before: tombstoneObject(name, "a", "wwn:1", "former"), want: stowage.TombstonePublished,
		},
		"a very long identity": {identity: long, want: stowage.TombstonePublished},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, api := withAPI(t)
			if tc.before != nil {
				api.put(tc.before)
			}
			for i := range tc.others {
				if err := c.TombstoneInformer.GetIndexer().Add(tombstoneObject(strconv.Itoa(i), "a", "wwn:other", "other")); err != nil {
					t.Fatal(err)
				}
			}
			identity := cmp.Or(tc.identity, "wwn:1")
			volume := ownedVolume("pv", "a", identity)
			volume.UID, volume.Spec.StorageClassName = "uid", "fast"
			volume.Spec.PersistentVolumeReclaimPolicy = cmp.Or(tc.policy, corev1.PersistentVolumeReclaimDelete)
			f := &volumeFacts{volume: volume, node: "a", Facts: rules.Facts{Now: sweepTime}}
			if err := c.apply(t.Context(), f, rules.Decision{Do: rules.AddTombstone}); (err == nil) != (tc.want != "") {
				t.Fatalf("error %v, want one: %t", err, tc.want == "")
			}
			want := map[string]stowage.LocalDiskTombstoneSpec{}
			if tc.want != "" {
				want[stowage.TombstoneName("a", identity)] = stowage.LocalDiskTombstoneSpec{NodeName: "a", Tombstone: stowage.Tombstone{
					Identity: identity, Class: "fast", Volume: "pv", VolumeUID: "uid", Generation: localpv.FirstGeneration, State: tc.want, Since: new(metav1.NewTime(sweepTime)),
				}}
			}
			got := api.tombstones(t, c)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if tc.want == "" {
				return
			}
			if err := c.confirmTombstone(t.Context(), f); err != nil {
				t.Errorf("its volume cannot be removed: %v", err)
			}
		})
	}
}

// TestMoveTombstones: of the report of an earlier version. A dry run moves none.
func TestMoveTombstones(t *testing.T) {
	t.Parallel()
	name := stowage.TombstoneName("a", "wwn:1")
	old, later := tombstoneObject(name, "a", "wwn:1", "older"), tombstoneObject(name, "a", "wwn:1", "later")
	old.Spec.Since, later.Spec.Since = new(metav1.NewTime(sweepTime.Add(-2*time.Hour))), new(metav1.NewTime(sweepTime))
	for what, tc := range map[string]struct {
		existing *stowage.LocalDiskTombstone
		dryRun   bool
		stale    bool              // the report has changed
		want     map[string]string // the UIDs of the volumes by identity
	}{
		"to new objects":                       {want: map[string]string{"wwn:1": "moved", "wwn:2": "moved"}},
		"a part was moved before":              {existing: tombstoneObject(name, "a", "wwn:1", "moved"), want: map[string]string{"wwn:1": "moved", "wwn:2": "moved"}},
		"one of a later volume stays":          {existing: later, want: map[string]string{"wwn:1": "later", "wwn:2": "moved"}},
		"one of an earlier volume is replaced": {existing: old, want: map[string]string{"wwn:1": "moved", "wwn:2": "moved"}},
		"the report has changed":               {stale: true, want: map[string]string{"wwn:1": "moved", "wwn:2": "moved"}},
		"a dry run":                            {dryRun: true, want: map[string]string{}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, api := withAPI(t)
			c.Settings.DryRun = tc.dryRun
			if tc.existing != nil {
				api.put(tc.existing.DeepCopy())
			}
			report := pageOf(1)
			report.Labels = map[string]string{wellknown.TombstonesLabel: wellknown.TombstonesValue, "other": "label"}
			for _, identity := range []string{"wwn:1", "wwn:2"} {
				report.Spec.Tombstones = append(report.Spec.Tombstones, tombstoneObject("", "", identity, "moved").Spec.Tombstone)
			}
			api.put(report)
			if err := c.ReportInformer.GetIndexer().Add(report.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if tc.stale {
				api.put(report)
			}
			if _, err := c.sweep(t.Context(), tombstonesKey); errors.Is(err, loop.ErrStale) != tc.stale || err != nil && !tc.stale {
				t.Errorf("error %v", err)
			}
			got := map[string]string{}
			for _, spec := range api.tombstones(t, c) {
				got[spec.Identity] = spec.VolumeUID
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			after, err := c.Reports.Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, labelled := after.Labels[wellknown.TombstonesLabel]
			if kept := tc.dryRun || tc.stale; labelled != kept || (len(after.Spec.Tombstones) > 0) != kept || after.Labels["other"] == "" {
				t.Errorf("the report has labels %v and tombstones %v, want them kept: %t", after.Labels, after.Spec.Tombstones, kept)
			}
		})
	}
}

// TestSweepTombstones: a tombstone is deleted if its disk was published again, and it has not changed.
func TestSweepTombstones(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		state         stowage.TombstoneState
		dryRun, stale bool
		writes        []string
	}{
		"resolved":       {state: stowage.TombstonePublished, writes: []string{"DELETE localdisktombstones/ldt-1"}},
		"it has changed": {state: stowage.TombstonePublished, stale: true, writes: []string{"DELETE localdisktombstones/ldt-1"}},
		"a dry run":      {state: stowage.TombstonePublished, dryRun: true},
		"it retains":     {state: stowage.TombstoneRetained},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, api := withAPI(t)
			c.Settings.DryRun = tc.dryRun
			tombstone := tombstoneObject("ldt-1", "a", "wwn:1", "old")
			tombstone.Spec.State = tc.state
			api.put(tombstone)
			volume := ownedVolume("pv", "a", "wwn:1")
			volume.CreationTimestamp = metav1.NewTime(sweepTime)
			if err := errors.Join(c.volumes.GetIndexer().Add(volume), c.TombstoneInformer.GetIndexer().Add(tombstone.DeepCopy())); err != nil {
				t.Fatal(err)
			}
			if tc.stale {
				api.put(tombstone)
			}
			if _, err := c.sweep(t.Context(), tombstonesKey); errors.Is(err, loop.ErrStale) != tc.stale || err != nil && !tc.stale {
				t.Errorf("error %v", err)
			}
			if diff := gocmp.Diff(tc.writes, api.writes); diff != "" {
				t.Error(diff)
			}
			if got, kept := len(api.tombstones(t, c)), tc.writes == nil || tc.stale; (got == 1) != kept {
				t.Errorf("%d tombstones are left, want it kept: %t", got, kept)
			}
		})
	}
}
