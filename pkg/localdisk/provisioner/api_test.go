// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

var volumesResource = corev1.SchemeGroupVersion.WithResource("persistentvolumes")

// api is the fake clientset, with UIDs, resource versions, preconditions and finalizers.
type api struct {
	*fake.Clientset

	// written counts writes.
	mu      sync.Mutex
	version int
	// answer, if set, may answer a request; late reports whether the request is carried out
	// nevertheless.
	answer func(verb, resource, name string) (err error, late bool)
	asked  map[string]int // verb and resource
}

func newAPI(objects ...runtime.Object) *api {
	a := &api{Clientset: fake.NewClientset(objects...), version: 100, asked: map[string]int{}}
	for verb, act := range map[string]clienttesting.ReactionFunc{"create": a.create, "update": a.update, "delete": a.delete} {
		a.PrependReactor(verb, "persistentvolumes", act)
	}
	a.PrependReactor("*", "*", a.intercept)
	return a
}

// refuse answers requests with errors; nil ends that.
func (a *api) refuse(answer func(verb, resource, name string) (error, bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// count returns the number of requests since the last call.
func (a *api) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.asked[what]
	delete(a.asked, what)
	return n
}

// total returns the number of requests since its last call.
func (a *api) total() (reads, writes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for what, n := range a.asked {
		if strings.HasPrefix(what, "get ") || strings.HasPrefix(what, "list ") {
			reads += n
		} else if !strings.HasPrefix(what, "watch ") {
			writes += n
		}
	}
	clear(a.asked)
	return reads, writes
}

func (a *api) intercept(action clienttesting.Action) (bool, runtime.Object, error) {
	var name string
	switch action := action.(type) {
	case clienttesting.GetAction: // and of deletions
		name = action.GetName()
	case clienttesting.CreateAction: // and of updates
		if object, ok := action.GetObject().(metav1.Object); ok {
			name = object.GetName()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[action.GetVerb()+" "+action.GetResource().Resource]++
	if a.answer == nil {
		return false, nil, nil
	}
	err, late := a.answer(action.GetVerb(), action.GetResource().Resource, name)
	if err == nil {
		return false, nil, nil
	}
	if late {
		if _, _, problem := a.create(action); problem != nil {
			return true, nil, problem
		}
	}
	return true, nil, err
}

func (a *api) next() string {
	a.version++
	return strconv.Itoa(a.version)
}

func (a *api) create(action clienttesting.Action) (bool, runtime.Object, error) {
	pv := action.(clienttesting.CreateAction).GetObject().(*corev1.PersistentVolume).DeepCopy()
	if _, err := a.Tracker().Get(volumesResource, "", pv.Name); err == nil {
		return true, nil, apierrors.NewAlreadyExists(volumesResource.GroupResource(), pv.Name)
	}
	pv.ResourceVersion = a.next()
	pv.UID = types.UID("uid-" + pv.ResourceVersion)
	return true, pv, a.Tracker().Create(volumesResource, pv, "")
}

func (a *api) update(action clienttesting.Action) (bool, runtime.Object, error) {
	pv := action.(clienttesting.UpdateAction).GetObject().(*corev1.PersistentVolume).DeepCopy()
	found, err := a.Tracker().Get(volumesResource, "", pv.Name)
	if err != nil {
		return true, nil, apierrors.NewNotFound(volumesResource.GroupResource(), pv.Name)
	}
	if found.(*corev1.PersistentVolume).ResourceVersion != pv.ResourceVersion {
		return true, nil, apierrors.NewConflict(volumesResource.GroupResource(), pv.Name, errors.New("it has changed"))
	}
	pv.ResourceVersion = a.next()
	if pv.DeletionTimestamp != nil && len(pv.Finalizers) == 0 {
		return true, pv, a.Tracker().Delete(volumesResource, "", pv.Name)
	}
	return true, pv, a.Tracker().Update(volumesResource, pv, "")
}

func (a *api) delete(action clienttesting.Action) (bool, runtime.Object, error) {
	asked := action.(clienttesting.DeleteActionImpl)
	found, err := a.Tracker().Get(volumesResource, "", asked.Name)
	if err != nil {
		return true, nil, apierrors.NewNotFound(volumesResource.GroupResource(), asked.Name)
	}
	pv := found.(*corev1.PersistentVolume).DeepCopy()
	if p := asked.DeleteOptions.Preconditions; p != nil && (p.UID != nil && *p.UID != pv.UID || p.ResourceVersion != nil && *p.ResourceVersion != pv.ResourceVersion) {
		return true, nil, apierrors.NewConflict(volumesResource.GroupResource(), pv.Name, errors.New("it has changed"))
	}
	if len(pv.Finalizers) == 0 {
		return true, nil, a.Tracker().Delete(volumesResource, "", pv.Name)
	}
	if pv.DeletionTimestamp == nil {
		now := metav1.Now()
		pv.DeletionTimestamp, pv.ResourceVersion = &now, a.next()
	}
	return true, nil, a.Tracker().Update(volumesResource, pv, "")
}

// volumes returns all volumes.
func (a *api) volumes() []corev1.PersistentVolume {
	list, err := a.Tracker().List(volumesResource, corev1.SchemeGroupVersion.WithKind("PersistentVolume"), "")
	if err != nil {
		return nil
	}
	return list.(*corev1.PersistentVolumeList).Items
}

// reports is a fake client for LocalDiskReports.
type reports struct {
	mu      sync.Mutex
	version int
	watches []*watch.FakeWatcher
	known   map[string]*stowage.LocalDiskReport
	writes  int
	reads   int
	refused error
	// unlisted makes lists by label fail.
	unlisted bool
	// listed, if set, is called after a list by label.
	listed func()
}

// tombstones is a fake client for LocalDiskTombstones.
type tombstones struct {
	mu       sync.Mutex
	known    []stowage.LocalDiskTombstone
	unlisted bool
}

func (l *tombstones) List(context.Context, metav1.ListOptions) (*stowage.LocalDiskTombstoneList, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unlisted {
		return nil, apierrors.NewInternalError(errors.New("no lists today"))
	}
	return (&stowage.LocalDiskTombstoneList{Items: l.known}).DeepCopy(), nil
}

func (l *tombstones) add(node string, tombstone stowage.Tombstone) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = append(l.known, stowage.LocalDiskTombstone{
		ObjectMeta: metav1.ObjectMeta{Name: stowage.TombstoneName(node, tombstone.Identity)},
		Spec:       stowage.LocalDiskTombstoneSpec{NodeName: node, Tombstone: tombstone},
	})
}

// refuse makes writes fail with err; nil: they succeed again.
func (r *reports) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = err
}

func newReports() *reports { return &reports{known: map[string]*stowage.LocalDiskReport{}} }

func (r *reports) Get(_ context.Context, name string, _ metav1.GetOptions) (*stowage.LocalDiskReport, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if report := r.known[name]; report != nil {
		return report.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(stowage.SchemeGroupVersion.WithResource("localdiskreports").GroupResource(), name)
}

func (r *reports) Create(_ context.Context, report *stowage.LocalDiskReport, _ metav1.CreateOptions) (*stowage.LocalDiskReport, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(report)
	return report, nil
}

func (r *reports) UpdateStatus(_ context.Context, report *stowage.LocalDiskReport, _ metav1.UpdateOptions) (*stowage.LocalDiskReport, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	if r.refused != nil {
		return nil, r.refused
	}
	r.put(report)
	return report, nil
}

// edit changes the first page as another client does.
func (r *reports) edit(change func(*stowage.LocalDiskReport)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := r.known[node].DeepCopy()
	change(report)
	r.put(report)
}

// put stores a report, and notifies watchers. The caller holds mu.
func (r *reports) put(report *stowage.LocalDiskReport) {
	r.version++
	report.ResourceVersion = strconv.Itoa(r.version)
	r.known[report.Name] = report.DeepCopy()
	for _, w := range r.watches {
		if !w.IsStopped() {
			w.Modify(report.DeepCopy())
		}
	}
}

func (r *reports) List(_ context.Context, o metav1.ListOptions) (*stowage.LocalDiskReportList, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unlisted && o.LabelSelector != "" {
		return nil, apierrors.NewInternalError(errors.New("no lists today"))
	}
	list := &stowage.LocalDiskReportList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(r.version)}}
	for _, report := range r.known {
		list.Items = append(list.Items, *report.DeepCopy())
	}
	if r.listed != nil && o.LabelSelector != "" {
		r.listed()
	}
	return list, nil
}

func (r *reports) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := watch.NewFakeWithChanSize(1000, false)
	r.watches = append(r.watches, w)
	return w, nil
}

// IsWatchListSemanticsUnSupported makes reflectors list before they watch.
func (r *reports) IsWatchListSemanticsUnSupported() bool { return true }

// count returns the number of status writes since the last call.
func (r *reports) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.writes
	r.writes = 0
	return n
}

// renew returns an object with a new version.
func (a *api) renew(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	a.mu.Lock()
	defer a.mu.Unlock()
	pv.ResourceVersion = a.next()
	return pv
}
