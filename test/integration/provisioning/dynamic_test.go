// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

const (
	noSpace    = "node(s) did not have enough free storage"
	noVolume   = "node(s) didn't find available persistent volumes to bind"
	notAllowed = "node(s) didn't match the storage class's allowed topologies"
)

// TestDynamicProvisioning: a claim that waits for its first consumer gets a
// volume on the node that the scheduler selected, within the class's topology.
func TestDynamicProvisioning(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a").Zone(e.Name("out")), e.Node("b").Zone(e.Name("in")), e.Node("c").Zone(e.Name("in")))
		createClass(e, func(c *builders.Class) { c.AllowedTopology(v1.LabelTopologyZone, e.Name("in")) })
		p := startProvisioner(e, nil)
		e.CreatePVC(made(e, "data", "5Gi"))
		pod := e.CreatePod(e.Pod("pod").PVC("data"))
		node := e.WaitScheduled(pod, "b", "c").Spec.NodeName
		claim := e.WaitBound("data", "pvc-data")
		volume := e.WaitPV("pvc-data", "Bound", func(v *v1.PersistentVolume) bool { return v.Status.Phase == v1.VolumeBound })
		want := builders.MakePV("").Hostname(node).Obj().Spec.NodeAffinity
		if diff := cmp.Diff(want, volume.Spec.NodeAffinity); diff != "" {
			e.T.Errorf("affinity of the volume (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{node}, p.nodes()); diff != "" {
			e.T.Errorf("nodes requested from the provisioner (-want +got):\n%s", diff)
		}
		for _, key := range []string{plan.AnnSelectedNode, plan.AnnStorageProvisioner} {
			if claim.Annotations[key] == "" {
				e.T.Errorf("the claim has no annotation %s", key)
			}
		}
		e.NoVolumeTwice()

		// The next pod is placed on the volume's node.
		e.DeletePod(pod)
		again := e.CreatePod(e.Pod("again").PVC("data"))
		if got := e.WaitScheduled(again).Spec.NodeName; got != node {
			e.T.Errorf("the next pod is on node %s, its volume on %s", got, node)
		}
	})
}

// TestClaimIsLeftToPVController: the PV controller sets a provisioned volume Bound and
// next writes its claim, which the scheduler leaves to it.
func TestClaimIsLeftToPVController(t *testing.T) {
	t.Parallel()
	const pods = 20
	e := fixture.New(t)
	e.AddNodes(e.Node("a"), e.Node("b"))
	createClass(e)
	startProvisioner(e, nil)
	tap := fixture.NewTap()
	var written atomic.Int32
	tap.Before(fixture.Is("update", "persistentvolumeclaims"), func(ctx context.Context, r fixture.Request) error {
		volume, err := e.Client.CoreV1().PersistentVolumes().Get(ctx, e.Name("pvc-"+r.Name), metav1.GetOptions{})
		if err == nil && volume.Status.Phase == v1.VolumeBound { // or else it selects the node
			written.Add(1)
		}
		return nil
	})
	e.Use(e.Start(fixture.SchedulerOptions{Tap: tap}).Name())
	for i := range pods { // one after the other, so that the PV controller keeps up
		name := fmt.Sprintf("data-%d", i)
		e.CreatePVC(made(e, name, "1Gi"))
		e.WaitScheduled(e.CreatePod(e.Pod(fmt.Sprintf("pod-%d", i)).PVC(name)))
		e.WaitBound(name, "")
	}
	e.NoVolumeTwice()
	t.Logf("of %d claims the scheduler wrote %d", pods, written.Load())
	if n := written.Load(); n == pods { // on a loaded machine the PV controller may be slow at times
		t.Errorf("the scheduler wrote all of %d claims", n)
	}
}

// TestNoNodeAllowed: the class allows provisioning where no node is.
func TestNoNodeAllowed(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a").Zone(e.Name("out")))
	createClass(e, func(c *builders.Class) { c.AllowedTopology(v1.LabelTopologyZone, e.Name("in")) })
	p := startProvisioner(e, nil)
	e.CreatePVC(made(e, "data", "5Gi"))
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	e.WaitUnschedulable(pod, notAllowed)
	// An allowed node is added.
	e.AddNodes(e.Node("b").Zone(e.Name("in")))
	e.WaitScheduled(pod, "b")
	if got := p.volumes(); got != 1 {
		t.Errorf("%d volumes were made, want 1", got)
	}
}

// TestImmediateProvisioning: the volume is provisioned first, and the pod is placed on its node.
func TestImmediateProvisioning(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a").Zone(e.Name("out")), e.Node("b").Zone(e.Name("in")))
		createClass(e, func(c *builders.Class) { c.Immediate().AllowedTopology(v1.LabelTopologyZone, e.Name("in")) })
		startProvisioner(e, nil)
		e.CreatePVC(made(e, "data", "5Gi"))
		pod := e.CreatePod(e.Pod("pod").PVC("data"))
		e.WaitScheduled(pod, "b")
		e.WaitBound("data", "pvc-data")
		e.NoVolumeTwice()
	})
}

// TestExistingAndDynamic: the existing volumes decide on the node, and the
// others are made there.
func TestExistingAndDynamic(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// claims of the pod; "existing" must get the existing volume.
		claims func(*fixture.Env) []*builders.PVC
		volume func(*fixture.Env) *builders.PV
	}{
		"of two classes": {
			claims: func(e *fixture.Env) []*builders.PVC {
				return []*builders.PVC{e.PVC("existing"), made(e, "made", "5Gi")}
			},
			volume: func(e *fixture.Env) *builders.PV { return e.LocalPV("volume", "b") },
		},
		"of one class, which has one volume left": {
			claims: func(e *fixture.Env) []*builders.PVC {
				return []*builders.PVC{made(e, "made", "9Gi"), made(e, "existing", "5Gi")}
			},
			volume: func(e *fixture.Env) *builders.PV {
				return e.LocalPV("volume", "b").Class(e.Name("made")).Capacity("5Gi")
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fixture.BothModes(t, func(e *fixture.Env) {
				e.AddNodes(e.Node("a"), e.Node("b"))
				createClass(e)
				startProvisioner(e, nil)
				e.CreatePVs(test.volume(e))
				pod := e.Pod("pod").NodeSelector(v1.LabelHostname, e.Name("b"))
				for _, claim := range test.claims(e) {
					pod.PVC(e.CreatePVC(claim).Name)
				}
				e.WaitScheduled(e.CreatePod(pod), "b")
				e.WaitBound("existing", "volume")
				e.WaitBound("made", "pvc-made")
				e.WaitPV("pvc-made", "on node b", func(v *v1.PersistentVolume) bool {
					return cmp.Equal(v.Spec.NodeAffinity, e.LocalPV("", "b").Obj().Spec.NodeAffinity)
				})
				e.NoVolumeTwice()
			})
		})
	}
}

// TestEphemeralDynamic: the claim is the pod's own, and volume and claim go
// with it.
func TestEphemeralDynamic(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a"))
		createClass(e)
		startProvisioner(e, nil)
		pod := e.CreatePod(e.Pod("pod").Ephemeral("scratch", made(e, "", "5Gi").Obj()))
		e.WaitScheduled(pod, "a")
		e.WaitBound("pod-scratch", "pvc-pod-scratch")
		e.DeletePod(pod)
		e.Wait("claim and volume to be deleted", func() bool { return e.SeenPVC("pod-scratch") == nil && e.SeenPV("pvc-pod-scratch") == nil })
	})
}

// TestRefusedNode: the provisioner refuses the first selected node, whichever that is. The pod
// is placed elsewhere as soon as the claim's annotation is removed,
// long before bindTimeoutSeconds.
func TestRefusedNode(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a"), e.Node("b"))
		createClass(e)
		var once sync.Once
		var refused string
		p := startProvisioner(e, func(_ context.Context, o controller.ProvisionOptions) error {
			once.Do(func() { refused = o.SelectedNodeName })
			if o.SelectedNodeName == refused {
				return errRefused
			}
			return nil
		})
		e.CreatePVC(made(e, "made", "5Gi"))
		pod := e.CreatePod(e.Pod("pod").PVC("made"))
		node := e.WaitScheduled(pod).Spec.NodeName
		e.WaitBound("made", "pvc-made")
		nodes := p.nodes()
		if node == nodes[0] || nodes[len(nodes)-1] != node || p.volumes() != 1 {
			e.T.Errorf("the pod is on node %s after %v were tried, with %d volumes made", node, nodes, p.volumes())
		}
		e.NoVolumeTwice()
	})
}
