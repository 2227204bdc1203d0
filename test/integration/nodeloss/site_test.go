// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/provisioners"
)

// site is some nodes with local volumes.
type site struct {
	*fixture.Env
	class      string
	reports    *diskreports.Client
	tombstones *diskreports.TombstoneClient
}

// asks are annotations with the policy of a class or a claim.
func asks(policy, delay string) map[string]string {
	return map[string]string{wellknown.NodeLossAnnotation: policy, wellknown.NodeLossDelayAnnotation: delay}
}

// newSite makes nodes, each with this number of volumes, and a class with annotations.
func newSite(t *testing.T, e *fixture.Env, annotations map[string]string, nodes ...string) *site {
	t.Helper()
	client, err := diskreports.NewClient(e.Cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	tombstones, err := diskreports.NewTombstoneClient(e.Cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Env: e, class: e.Name("disks"), reports: client, tombstones: tombstones}
	class := e.Class("disks").ReclaimPolicy(corev1.PersistentVolumeReclaimDelete)
	for key, value := range annotations {
		class.Annotation(key, value)
	}
	e.CreateClass(class)
	for _, name := range nodes {
		e.AddNodes(e.Node(name))
		s.volume(name, "disk1", corev1.PersistentVolumeReclaimDelete)
	}
	t.Cleanup(s.strip)
	return s
}

// delay changes the delay of the class.
func (s *site) delay(is string) {
	s.T.Helper()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, wellknown.NodeLossDelayAnnotation, is)
	if _, err := s.Client.StorageV1().StorageClasses().Patch(s.Context(), s.class, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		s.T.Fatal(err)
	}
}

// volume makes a volume as a provisioner would, on an existing node.
func (s *site) volume(node, name string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	s.T.Helper()
	return s.volumeOf(node, name, "wwn:"+s.Name(node)+"-"+name, policy)
}

// volumeOf makes a volume of a disk.
func (s *site) volumeOf(node, name, identity string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	s.T.Helper()
	made := s.makeVolume(node, name, identity, policy)
	s.Wait("volume "+made.Name+" to be Available", func() bool {
		v := s.seen(made)
		return v != nil && v.Status.Phase == corev1.VolumeAvailable
	})
	return made
}

// makeVolume makes a volume of a disk, and does not wait for it: that of a lost node
// may be deleted before it is seen Available.
func (s *site) makeVolume(node, name, identity string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	s.T.Helper()
	class, err := s.Client.StorageV1().StorageClasses().Get(s.Context(), s.class, metav1.GetOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	full := s.Name(node)
	pv, problem := localpv.Volume(localpv.Request{
		Node: localpv.Node{Name: full, Hostname: full}, Class: class, Generation: 1,
		Disk: disk.Fact{
			Key: disk.Key{Class: s.class, Name: name}, HostPath: "/mnt/disks/" + name, Kind: disk.Mount,
			Identity: disk.Identity(identity), Bytes: 1 << 30,
		},
		Offer: localpv.Offer{Mode: disk.Filesystem, Labels: map[string]string{"stowage.dev/test": s.Namespace}},
	})
	if problem != nil {
		s.T.Fatal(problem)
	}
	pv.Spec.PersistentVolumeReclaimPolicy = policy
	made, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), pv, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	return made
}

// strip removes the finalizers of remaining volumes, which have no provisioner.
func (s *site) strip() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), s.Timeout)
	defer cancel()
	for _, pv := range s.SeenPVs() {
		err := s.Client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{})
		if err == nil {
			_, err = s.Client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			s.T.Error(err)
		}
	}
}

// seen is this very volume; nil if it is deleted.
func (s *site) seen(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	for _, v := range s.AllPVs() {
		if v.UID == pv.UID {
			return v
		}
	}
	return nil
}

// set makes a StatefulSet whose pods have a claim "data" each. change may be nil.
func (s *site) set(name string, replicas int32, change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s.T.Helper()
	labels := map[string]string{"app": name}
	pod := s.Pod("template").Obj()
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, PodManagementPolicy: appsv1.ParallelPodManagement,
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*s.PVC("data").Class(s.class).Request("1Mi").Obj()},
		},
	}
	if change != nil {
		change(set)
	}
	made, err := s.Client.AppsV1().StatefulSets(s.Namespace).Create(s.Context(), set, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	return made
}

// placed is a pod that runs, its claim and its volume.
type placed struct {
	pod   *corev1.Pod
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
}

// node is the short name of the pod's node.
func (p *placed) node(s *site) string {
	return strings.TrimPrefix(p.pod.Spec.NodeName, s.Namespace+"-")
}

// waitPlaced waits until a pod runs with a claim that is bound and is not that of the former
// pod, before, which may be nil.
func (s *site) waitPlaced(pod, claim string, before *placed) *placed {
	s.T.Helper()
	var p placed
	s.Wait(fmt.Sprintf("pod %s to run with its claim", pod), func() bool {
		p = placed{pod: s.SeenPod(pod), claim: s.SeenPVC(claim)}
		if p.pod == nil || p.claim == nil || p.pod.Status.Phase != corev1.PodRunning || p.pod.DeletionTimestamp != nil || p.claim.Status.Phase != corev1.ClaimBound {
			return false
		}
		if before != nil && (p.claim.UID == before.claim.UID || p.pod.UID == before.pod.UID) {
			return false
		}
		for _, v := range s.AllPVs() {
			if v.Name == p.claim.Spec.VolumeName && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == p.claim.UID {
				p.pv = v
				return true
			}
		}
		return false
	})
	return &p
}

// lose deletes a node.
func (s *site) lose(node string) {
	s.T.Helper()
	if err := s.Client.CoreV1().Nodes().Delete(s.Context(), s.Name(node), metav1.DeleteOptions{}); err != nil {
		s.T.Fatal(err)
	}
}

// fail has a node be there, and not Ready, for good.
func (s *site) fail(node string) {
	s.T.Helper()
	s.PatchNode(node, map[string]any{"metadata": map[string]any{"labels": map[string]string{"stowage.dev/cleaning": "none"}}}) // kwok keeps off
	const patch = `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`
	_, err := s.Client.CoreV1().Nodes().Patch(s.Context(), s.Name(node), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		s.T.Fatal(err)
	}
}

// tombstonesOf returns the tombstones of a node.
func (s *site) tombstonesOf(node string) []stowage.LocalDiskTombstone {
	s.T.Helper()
	list, err := s.tombstones.List(s.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		s.T.Fatal(err)
	}
	return list.Items
}

// waitTombstones waits until the tombstones of a node are done.
func (s *site) waitTombstones(node string, done func([]stowage.LocalDiskTombstone) bool) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), s.Timeout)
	defer cancel()
	changes, err := s.tombstones.Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		s.T.Fatal(err)
	}
	defer changes.Stop()
	for found := s.tombstonesOf(node); !done(found); found = s.tombstonesOf(node) {
		if _, open := <-changes.ResultChan(); !open {
			s.T.Fatalf("waited %s for the tombstones of node %s, which are %+v", s.Timeout, node, found)
		}
	}
}

// none: there are no tombstones.
func none(tombstones []stowage.LocalDiskTombstone) bool { return len(tombstones) == 0 }

// waitGone waits until this very volume is deleted, and has a tombstone.
func (s *site) waitGone(pv *corev1.PersistentVolume, state stowage.TombstoneState) {
	s.T.Helper()
	s.Wait("volume "+pv.Name+" to be removed", func() bool { return s.seen(pv) == nil })
	tombstones := s.tombstonesOf(pv.Annotations[wellknown.NodeNameAnnotation])
	for _, t := range tombstones {
		if t.Spec.VolumeUID == string(pv.UID) && t.Spec.Identity == pv.Annotations[wellknown.DiskIdentityAnnotation] && t.Spec.State == state && len(t.OwnerReferences) == 0 {
			return
		}
	}
	s.T.Errorf("there is no tombstone %s of volume %s: %+v", state, pv.Name, tombstones)
}

// released is when the claim of a volume was released, by its tombstone (in seconds)
// or the volume, if it exists; zero if it was not.
func (s *site) released(pv *corev1.PersistentVolume) (at time.Time) {
	s.T.Helper()
	now, err := s.Client.CoreV1().PersistentVolumes().Get(s.Context(), pv.Name, metav1.GetOptions{})
	if err == nil && now.UID == pv.UID {
		if release := rules.ReadRelease(now.Annotations[wellknown.ReleaseAnnotation]); release != nil {
			at = release.At.Truncate(time.Second)
		}
		return at
	}
	if err != nil && !apierrors.IsNotFound(err) {
		s.T.Fatal(err)
	}
	for _, t := range s.tombstonesOf(pv.Annotations[wellknown.NodeNameAnnotation]) {
		if t.Spec.VolumeUID == string(pv.UID) && t.Spec.Released != nil {
			at = t.Spec.Released.Time
		}
	}
	return at
}

// report has the provisioner of a node say, in its report and on the volume, that the disk of a
// volume is lost.
func (s *site) report(pv *corev1.PersistentVolume, state stowage.EntryState) {
	s.T.Helper()
	s.reportOnly(pv, state)
	if state != stowage.EntryAvailable {
		s.mark(pv, disk.Mark(state))
	}
}

// mark marks a volume with the state of its disk.
func (s *site) mark(pv *corev1.PersistentVolume, mark disk.Mark) {
	s.T.Helper()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, wellknown.DiskAnnotation, mark)
	if _, err := s.Client.CoreV1().PersistentVolumes().Patch(s.Context(), pv.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		s.T.Fatal(err)
	}
}

// reportOnly sets the state of a volume's disk only in the report.
func (s *site) reportOnly(pv *corev1.PersistentVolume, state stowage.EntryState) {
	s.T.Helper()
	node := pv.Annotations[wellknown.NodeNameAnnotation]
	report, err := s.reports.Create(s.Context(), &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		report, err = s.reports.Get(s.Context(), node, metav1.GetOptions{})
	}
	if err == nil {
		report.Status.Entries = []stowage.Entry{{Class: s.class, Name: "disk1", State: state, Volume: pv.Name, Identity: pv.Annotations[wellknown.DiskIdentityAnnotation]}}
		_, err = s.reports.UpdateStatus(s.Context(), report, metav1.UpdateOptions{})
	}
	if err != nil {
		s.T.Fatal(err)
	}
}

// hosts is the ConfigMap of the provisioners' policies.
func (s *site) hosts() map[string]string {
	configMap, err := s.Client.CoreV1().ConfigMaps(provisioners.Namespace).Get(s.Context(), "stowage-provisioner-nodes", metav1.GetOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	return configMap.Data
}

// waitHost waits until the ConfigMap has a value for a key; "" is none.
func (s *site) waitHost(key, value string) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), s.Timeout)
	defer cancel()
	watching, err := s.Client.CoreV1().ConfigMaps(provisioners.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=stowage-provisioner-nodes"})
	if err != nil {
		s.T.Fatal(err)
	}
	defer watching.Stop()
	for change := range watching.ResultChan() {
		if configMap, ok := change.Object.(*corev1.ConfigMap); ok && configMap.Data[key] == value {
			return
		}
	}
	s.T.Fatalf("waited %s for %s to be %q: %v", s.Timeout, key, value, s.hosts())
}
