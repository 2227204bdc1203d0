// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskstress_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

var (
	nodes = campaign.Scale(2, 4)
	// The volumes of a node: file systems in memory, file systems on loop devices, and
	// loop devices as they are.
	inMemory, onLoop, raw = campaign.Scale(18, 44), campaign.Scale(2, 3), campaign.Scale(2, 3)
	volumes               = nodes * (inMemory + onLoop + raw)

	mostPods = campaign.Scale(60, 300) // that exist at the same time, most of them waiting
	// duration is how long TestStress creates and deletes pods.
	duration = campaign.Scale(10*time.Second, 3*time.Minute)
)

const (
	// pace bounds the number of steps per second, so that other processes have a share of the
	// machine.
	pace = 20
)

// stress is the state of the test. Only the test's own goroutine uses it.
type stress struct {
	*fixture.Env
	t             *testing.T
	random        *rand.Rand
	files, blocks string // classes, of all nodes
	nodes         map[string]*node.Node
	canary        string

	pods    map[string]*pod        // that exist, by name
	claims  map[string]types.UID   // that exist, by name
	tenants map[types.UID]*tenant  // by volume
	roots   map[string]os.FileInfo // roots of file systems as they were at first, by path
	moved   map[types.UID]bool     // volumes that have had a tenant
	leaving []*tenant              // their claims are deleted, and kubelet still uses the volumes
	history *history

	created, interrupted, placedPods, checked int
}

// TestStress is the stress test of the seed: "Create a few hundred local PVs and even
// more Pods, where each pod specifies a varying number of PVCs. Randomly create and
// delete Pods and their PVCs at varying intervals. All Pods should be schedulable as
// PVs get recycled."
func TestStress(t *testing.T) {
	from := campaign.Begin(t)
	watch := noLeaks(t)
	s := newStress(t, from)
	for _, n := range s.nodes {
		watch(n.Folder)
	}
	s.Wait(fmt.Sprintf("%d volumes to be Available", volumes), func() bool { return s.available() == volumes })
	before := s.measureProvisioners()

	s.churn(duration)
	s.drain()
	s.NoVolumeTwice()
	s.CheckCaches()
	s.empty()
	s.Wait("all volumes to be Available again", func() bool { return s.available() == volumes })

	for _, volume := range s.volumes() {
		s.checkClean(volume, "in the end")
	}
	s.checkMounts()
	after := s.measureProvisioners()
	s.checkCanary()
	s.history.finish(t)
	t.Logf("%d pods created: %d placed, %d deleted while they waited; %d times a volume's next user found it clean", s.created, s.placedPods, s.interrupted, s.checked)
	for name, m := range after {
		t.Logf("provisioner of %s: %d KiB resident, %d KiB at most, %d descriptors (%d before)", name, m.resident, m.most, m.descriptors, before[name].descriptors)
		if m.descriptors > before[name].descriptors+20 {
			t.Errorf("the provisioner of %s has %d files open, and had %d when its disks were idle before", name, m.descriptors, before[name].descriptors)
		}
	}
}

func newStress(t *testing.T, from uint64) *stress {
	e := fixture.New(t)
	e.Timeout = 4 * deadline.Wait() // the last of many pods to be placed wait for all others
	s := &stress{
		Env: e, t: t, random: rand.New(rand.NewPCG(from, 0)), files: e.Name("all-files"), blocks: e.Name("all-blocks"),
		nodes: map[string]*node.Node{}, pods: map[string]*pod{}, claims: map[string]types.UID{},
		tenants: map[types.UID]*tenant{}, roots: map[string]os.FileInfo{}, moved: map[types.UID]bool{},
	}
	e.CreateClass(e.Class(s.files).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	e.CreateClass(e.Class(s.blocks).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	s.makeCanary()
	s.history = follow(t, e)
	for i := range nodes {
		s.addNode(fmt.Sprintf("n%d", i))
	}
	for _, n := range s.nodes {
		n.Start()
	}
	return s
}

// addNode makes a node and its disks, of 1 to 3 MiB or somewhat more.
func (s *stress) addNode(name string) {
	s.t.Helper()
	n := node.New(s.t, s.Env, name)
	n.Files = n.AddClass("all-files", nil)
	n.Blocks = n.AddClass("all-blocks", map[string]any{"volumeMode": "Block"})
	s.nodes[n.Name] = n
	var paths []string
	for i := range inMemory {
		paths = append(paths, n.Tmpfs(fmt.Sprintf("mem-%d", i), fmt.Sprintf("%dm", 1+i%3)))
	}
	for i := range onLoop {
		paths = append(paths, n.Mount(fmt.Sprintf("ext4-%d", i), "16M"))
	}
	for i := range raw {
		n.Device(fmt.Sprintf("raw-%d", i), "4M")
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			s.t.Fatal(err)
		}
		s.roots[path] = info
	}
}

// volumes are those of the test's nodes.
func (s *stress) volumes() []*corev1.PersistentVolume {
	return slices.DeleteFunc(s.AllPVs(), func(v *corev1.PersistentVolume) bool {
		return v.Spec.StorageClassName != s.files && v.Spec.StorageClassName != s.blocks
	})
}

func (s *stress) available() int {
	n := 0
	for _, volume := range s.volumes() {
		if volume.Status.Phase == corev1.VolumeAvailable && volume.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}
