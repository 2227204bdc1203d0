// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	. "stowage.dev/stowage/pkg/testing/builders"
)

// Sample is a made-up cluster, the same for the same numbers: nodes of three zones with as many disks each, most of them
// bound, a few in trouble, and two pods that wait.
type Sample struct {
	Nodes, Disks int

	random  *rand.Rand
	objects []runtime.Object
}

const (
	data, logs = "local-nvme", "local-log"
	sampleNS   = "db"
)

// sampleTime is when the cluster was read.
var sampleTime = time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC)

// sizes of the disks, in gibibytes.
var sizes = []int64{447, 894, 894, 1788, 3576}

// states of disks, of 100.
var states = []struct {
	share  int
	state  stowage.EntryState
	reason string
}{
	{58, stowage.EntryBound, ""}, {30, stowage.EntryAvailable, ""}, {4, stowage.EntryCleaning, ""}, {3, stowage.EntrySkipped, "InUse"},
	{1, stowage.EntryFailing, "FileSystemErrors"}, {1, stowage.EntryMissing, ""}, {1, stowage.EntryReplaced, ""}, {2, stowage.EntryRetained, ""},
}

// Write writes the cluster into a folder that kubectl stowage --from reads.
func (s *Sample) Write(t testing.TB) (folder string) {
	t.Helper()
	s.random = rand.New(rand.NewPCG(1, uint64(s.Nodes)))
	for _, name := range []string{data, logs} {
		s.add("StorageClass", "storage.k8s.io/v1", MakeClass(name).Obj())
	}
	for i := range s.Nodes {
		s.node(fmt.Sprintf("worker-%c-%d.example.com", 'a'+rune(i%3), i/3), fmt.Sprintf("eu-central-1%c", 'a'+rune(i%3)))
	}
	s.waiting("pg-8", data, "4Ti")
	s.waiting("pg-9", data, "400Gi")
	list := corev1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for _, object := range s.objects {
		list.Items = append(list.Items, runtime.RawExtension{Object: object})
	}
	var resources []string
	for _, kind := range snapshot.Kinds() {
		resources = append(resources, kind.Resource.GroupResource().String())
	}
	folder = filepath.Join(t.TempDir(), "production")
	for name, content := range map[string]any{"cluster.json": list, "snapshot.json": map[string]any{"time": sampleTime, "resources": resources}} {
		text, err := json.Marshal(content)
		if err == nil {
			err = errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, name), text, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func (s *Sample) add(kind, version string, object runtime.Object) {
	object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(version, kind))
	s.objects = append(s.objects, object)
}

// node adds a node with its disks.
func (s *Sample) node(name, zone string) {
	node := MakeNode(name).Hostname(name).Zone(zone).Obj()
	node.Spec.Unschedulable = s.random.IntN(25) == 0
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	s.add("Node", "v1", node)
	report := &stowage.LocalDiskReport{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: stowage.LocalDiskReportSpec{NodeName: name, Page: 1}}
	for i := range s.Disks {
		report.Status.Entries = append(report.Status.Entries, s.disk(name, i))
	}
	s.add("LocalDiskReport", stowage.SchemeGroupVersion.String(), report)
}

// disk returns the entry of a disk, and adds its volume.
func (s *Sample) disk(node string, i int) stowage.Entry {
	class, size := data, sizes[s.random.IntN(len(sizes))]
	if i < s.Disks/8 {
		class, size = logs, 223
	}
	share := s.random.IntN(100)
	state := states[0]
	for _, state = range states {
		if share -= state.share; share < 0 {
			break
		}
	}
	since := metav1.NewTime(sampleTime.Add(-2 * time.Hour))
	entry := stowage.Entry{
		Class: class, Name: fmt.Sprintf("nvme%dn1", i), Path: fmt.Sprintf("/mnt/%s/nvme%dn1", class, i), State: state.state, Reason: state.reason, Bytes: size << 30,
		Identity: fmt.Sprintf("wwn:0x%016x", s.random.Uint64()), Kind: "Mount", Mode: "Filesystem", Since: &since,
	}
	if state.state == stowage.EntrySkipped {
		return entry
	}
	entry.Volume = fmt.Sprintf("local-pv-%08x", s.random.Uint32())
	pv := MakePV(entry.Volume).Class(class).Capacity(fmt.Sprintf("%dGi", size)).Hostname(node).Phase(corev1.VolumeAvailable)
	claim := fmt.Sprintf("data-pg-%d", s.random.IntN(s.Nodes))
	switch state.state {
	case stowage.EntryAvailable:
		if s.random.IntN(10) == 0 {
			pv.ClaimRef(sampleNS, claim, "")
		}
	case stowage.EntryCleaning:
		pv.ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).ClaimRef(sampleNS, claim, "gone").Phase(corev1.VolumeReleased)
	case stowage.EntryRetained:
		pv.ReclaimPolicy(corev1.PersistentVolumeReclaimRetain).ClaimRef(sampleNS, claim, "gone").Phase(corev1.VolumeReleased)
	default:
		pv.ClaimRef(sampleNS, claim, "uid").Phase(corev1.VolumeBound)
	}
	s.add("PersistentVolume", "v1", pv.Obj())
	return entry
}

// waiting adds a pod that waits for a volume.
func (s *Sample) waiting(name, class, request string) {
	s.add("PersistentVolumeClaim", "v1", MakePVC("data-"+name).Namespace(sampleNS).Class(class).Request(request).Obj())
	pod := MakePod(name).Namespace(sampleNS).PVC("data-" + name).Obj()
	pod.Spec.SchedulerName = schedulerconfig.Name
	pod.CreationTimestamp = metav1.NewTime(sampleTime.Add(-time.Hour))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: pod.CreationTimestamp}}
	s.add("Pod", "v1", pod)
}
