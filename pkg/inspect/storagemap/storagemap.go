// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storagemap finds where the storage of a cluster is: the volumes with node affinity, the capacities of CSI
// drivers, and the pods that wait for storage. Volumes of all provisioners count. Its time is proportional to the
// number of objects.
package storagemap

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// By is what rows are the sums of.
type By string

// The sums.
const (
	ByNode  By = "node"
	ByZone  By = "zone"
	ByClass By = "class"
)

// Options say what is in a map.
type Options struct {
	By By
	// Class and Node limit the map to one; empty for all.
	Class, Node string
	// Namespace limits the waiting pods; empty for all.
	Namespace string
}

// Map returns the map of a cluster. Its objects are not changed.
func Map(s *snapshot.Snapshot, o Options) *v1alpha1.StorageMap {
	m := &mapper{
		Options: o, s: s, places: newPlaces(s), reports: localdisks.Read(s),
		rows: map[rowKey]*row{}, network: map[string]*v1alpha1.StorageMapNetwork{}, capacities: map[rowKey]*capacity{},
		claims: snapshot.By[*corev1.PersistentVolumeClaim](s), users: users(s),
	}
	m.volumes()
	m.disks()
	m.capacity()
	report := &v1alpha1.StorageMap{
		TypeMeta: v1alpha1.Type("StorageMap"), Rows: m.sortedRows(), NetworkVolumes: m.networkVolumes(),
		Capacities: m.sortedCapacities(), LocalDisks: m.localDisks(), WaitingPods: m.waitingPods(), Disks: m.list, Unseen: unseen(s),
	}
	if !s.Time.IsZero() {
		report.Time = &metav1.Time{Time: s.Time}
	}
	nodes := map[string]bool{}
	for _, r := range m.rows {
		for node := range r.nodes {
			nodes[node] = true
		}
		sum(&report.Total, &r.StorageMapRow)
	}
	report.Total.StorageMapPlace = v1alpha1.StorageMapPlace{Nodes: len(nodes)}
	slices.SortFunc(report.Disks, func(a, b v1alpha1.StorageMapDisk) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Volume, b.Volume))
	})
	return report
}

func (m *mapper) sortedRows() []v1alpha1.StorageMapRow {
	all := []v1alpha1.StorageMapRow{}
	for _, r := range m.rows {
		if m.By != ByNode {
			r.Nodes = len(r.nodes)
		}
		all = append(all, r.StorageMapRow)
	}
	slices.SortFunc(all, func(a, b v1alpha1.StorageMapRow) int {
		return cmp.Or(comparePlaces(a.StorageMapPlace, b.StorageMapPlace), cmp.Compare(a.Class, b.Class))
	})
	return all
}

// unseen returns what of the map's kinds is not in the snapshot.
func unseen(s *snapshot.Snapshot) []string {
	var all []string
	for _, gap := range s.Gaps {
		if slices.ContainsFunc(append(Kinds(), LocalDisks("").Kind), func(k snapshot.Kind) bool { return k.Resource.GroupResource().String() == gap.Resource }) {
			all = append(all, gap.String())
		}
	}
	return slices.Compact(all)
}

// rowKey is what a row is the sum of.
type rowKey struct {
	v1alpha1.StorageMapPlace
	class string
}

type row struct {
	v1alpha1.StorageMapRow
	nodes map[string]bool
}

type mapper struct {
	Options
	s       *snapshot.Snapshot
	places  *places
	reports *localdisks.Reports
	claims  map[snapshot.Name]*corev1.PersistentVolumeClaim
	users   map[snapshot.Name][]string

	rows       map[rowKey]*row
	network    map[string]*v1alpha1.StorageMapNetwork
	capacities map[rowKey]*capacity
	list       []v1alpha1.StorageMapDisk
}

// key returns the row of a class in a place.
func (m *mapper) key(place v1alpha1.StorageMapPlace, class string) rowKey {
	switch m.By {
	case ByClass:
		return rowKey{class: class}
	case ByZone:
		return rowKey{v1alpha1.StorageMapPlace{Zone: place.Zone}, class}
	}
	return rowKey{place, class}
}

func (m *mapper) row(place v1alpha1.StorageMapPlace, class string) *row {
	key := m.key(place, class)
	r := m.rows[key]
	if r == nil {
		r = &row{nodes: map[string]bool{}}
		r.StorageMapPlace, r.Class = key.StorageMapPlace, class
		m.rows[key] = r
	}
	if place.Node != "" {
		r.nodes[place.Node] = true
	}
	return r
}

// selects reports whether the map is to have a class in a place.
func (m *mapper) selects(node, class string) bool {
	return (m.Class == "" || m.Class == class) && (m.Node == "" || m.Node == node)
}

// volumes adds all volumes.
func (m *mapper) volumes() {
	for _, pv := range snapshot.Of[*corev1.PersistentVolume](m.s) {
		class, amount := match.VolumeClass(pv), v1alpha1.StorageMapAmount{Volumes: 1, Bytes: pv.Spec.Capacity.Storage().Value()}
		place, everywhere := m.places.ofVolume(pv)
		if !m.selects(place.Node, class) {
			continue
		}
		use := localdisks.UseOf(pv)
		if everywhere {
			m.addNetwork(class, use, amount)
			continue
		}
		r := m.row(place, class)
		add(&r.Total, amount)
		switch use {
		case localdisks.Free:
			add(&r.Free, amount)
			r.LargestFreeBytes = max(r.LargestFreeBytes, amount.Bytes)
		case localdisks.Reserved:
			add(&r.Reserved, amount)
		case localdisks.Bound:
			add(&r.Bound, amount)
		case localdisks.Cleaning:
			add(&r.Cleaning, amount)
		default:
			add(&r.Other, amount)
		}
		if _, reported := m.reports.OfVolume(pv.Name); reported || place.Node == "" {
			continue
		}
		trouble := match.DiskProblem(pv) != match.Fits
		if trouble {
			r.DisksInTrouble++
		}
		d := v1alpha1.StorageMapDisk{Node: place.Node, Class: class, Trouble: trouble, Reason: pv.Annotations[wellknown.DiskAnnotation], Path: localpv.PathOf(pv), Bytes: amount.Bytes, State: cmp.Or(string(pv.Status.Phase), string(corev1.VolumePending)), Use: useOf("", pv)}
		m.list = append(m.list, m.withUsers(d, pv))
	}
}

func (m *mapper) addNetwork(class string, use localdisks.Use, amount v1alpha1.StorageMapAmount) {
	n := m.network[class]
	if n == nil {
		n = &v1alpha1.StorageMapNetwork{Class: class}
		m.network[class] = n
	}
	add(&n.Total, amount)
	if use == localdisks.Bound {
		add(&n.Bound, amount)
	}
}

func (m *mapper) networkVolumes() []v1alpha1.StorageMapNetwork {
	var all []v1alpha1.StorageMapNetwork
	for _, n := range m.network {
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b v1alpha1.StorageMapNetwork) int { return cmp.Compare(a.Class, b.Class) })
	return all
}

// disks adds the entries of the reports.
func (m *mapper) disks() {
	volumes := snapshot.By[*corev1.PersistentVolume](m.s)
	for _, disk := range m.reports.Disks {
		if !m.selects(disk.Node, disk.Class) {
			continue
		}
		r := m.row(m.places.ofNode(disk.Node), disk.Class)
		trouble := disk.Trouble() || disk.Degraded()
		if trouble {
			r.DisksInTrouble++
		}
		if disk.State == stowage.EntrySkipped || disk.State == stowage.EntryPending {
			r.DisksWithoutVolume++
		}
		pv := volumes[snapshot.Name{Name: disk.Volume}]
		m.list = append(m.list, m.withUsers(v1alpha1.StorageMapDisk{
			Node: disk.Node, Class: disk.Class, Name: disk.Name, Path: disk.Path, Bytes: disk.Bytes, Identity: disk.Identity,
			State: string(disk.State), Use: useOf(disk.State, pv), Reason: disk.Reason, Trouble: trouble, Volume: disk.Volume,
		}, pv))
	}
}

// withUsers adds the volume, its claim, and the pods that use it. pv may be nil.
func (m *mapper) withUsers(d v1alpha1.StorageMapDisk, pv *corev1.PersistentVolume) v1alpha1.StorageMapDisk {
	if pv == nil {
		return d
	}
	d.Volume = pv.Name
	if ref := pv.Spec.ClaimRef; ref != nil {
		d.Claim = ref.Namespace + "/" + ref.Name
		d.Pods = m.users[snapshot.Name{Namespace: ref.Namespace, Name: ref.Name}]
	}
	return d
}

// users returns the pods of each claim.
func users(s *snapshot.Snapshot) map[snapshot.Name][]string {
	all := map[snapshot.Name][]string{}
	for _, pod := range snapshot.Of[*corev1.Pod](s) {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for use := range claims.Used(pod) {
			name := snapshot.Name{Namespace: pod.Namespace, Name: use.Name}
			all[name] = append(all[name], pod.Namespace+"/"+pod.Name)
		}
	}
	for name, pods := range all {
		slices.Sort(pods)
		all[name] = slices.Compact(pods)
	}
	return all
}

// useOf returns the use of a disk. state is empty without a report, and pv is nil without a volume.
func useOf(state stowage.EntryState, pv *corev1.PersistentVolume) v1alpha1.StorageMapUse {
	if trouble, found := troubles[state]; found {
		return trouble
	}
	if pv == nil {
		return withoutVolume[state]
	}
	switch match.DiskProblem(pv) {
	case match.DiskMissing:
		return v1alpha1.UseMissing
	case match.DiskReplaced:
		return v1alpha1.UseReplaced
	case match.DiskFailing:
		return v1alpha1.UseFailing
	case match.DiskUnproven:
		return v1alpha1.UseOther
	}
	return v1alpha1.StorageMapUse(localdisks.UseOf(pv))
}

// troubles are the states of entries that count before the state of the volume.
var troubles = map[stowage.EntryState]v1alpha1.StorageMapUse{
	stowage.EntryMissing: v1alpha1.UseMissing, stowage.EntryReplaced: v1alpha1.UseReplaced, stowage.EntryFailing: v1alpha1.UseFailing,
	stowage.EntryUnproven: v1alpha1.UseOther, stowage.EntryRetained: v1alpha1.UseOther, stowage.EntryFailed: v1alpha1.UseOther,
}

// withoutVolume are the uses of the other states, of disks whose volume does not exist or was not read.
var withoutVolume = map[stowage.EntryState]v1alpha1.StorageMapUse{
	stowage.EntryPending: v1alpha1.UseNotPublished, stowage.EntrySkipped: v1alpha1.UseNotPublished, stowage.EntryAvailable: v1alpha1.UseFree,
	stowage.EntryBound: v1alpha1.UseBound, stowage.EntryReleased: v1alpha1.UseCleaning, stowage.EntryCleaning: v1alpha1.UseCleaning,
}

func add(sum *v1alpha1.StorageMapAmount, amount v1alpha1.StorageMapAmount) {
	sum.Volumes += amount.Volumes
	sum.Bytes += amount.Bytes
}

// sum adds the amounts of a row to another.
func sum(to, from *v1alpha1.StorageMapRow) {
	add(&to.Total, from.Total)
	add(&to.Free, from.Free)
	to.LargestFreeBytes = max(to.LargestFreeBytes, from.LargestFreeBytes)
	add(&to.Reserved, from.Reserved)
	add(&to.Bound, from.Bound)
	add(&to.Cleaning, from.Cleaning)
	add(&to.Other, from.Other)
	to.DisksInTrouble += from.DisksInTrouble
	to.DisksWithoutVolume += from.DisksWithoutVolume
}

// provisioning reports whether the volume of a claim is being provisioned on the node that a scheduler selected.
func provisioning(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp == nil && !plan.IsBound(claim) && claim.Spec.VolumeName == "" && claims.SelectedNode(claim) != ""
}
