// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"context"
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// canary is a pod that waits for an event of a kind, and events of that kind.
type canary struct {
	// wait creates the pod "NAME" with the claim "NAME".
	wait func(e *fixture.Env, name string) *v1.Pod
	// useless events do not make the pod schedulable.
	useless func(e *fixture.Env)
	// helps is the one that the canary waits for.
	helps func(e *fixture.Env, name string)
}

// TestUselessEventsDoNotWake: a pod waits for capacity. Events of each kind that
// the scheduler listens to do not lead to an attempt to place it. The last event
// of a kind helps a canary; when it has been placed or its claim been sent to a
// node, the scheduler has received the events of those before and would have tried the pod.
func TestUselessEventsDoNotWake(t *testing.T) {
	t.Parallel()
	// Alone on a cluster: a pod of another test that fails to bind may release a volume.
	e := fixture.NewOn(t, fixture.DefaultConfig())
	e.AddNodes(e.Node("a").Label("topology.ebs.csi.aws.com/zone", "us-1a"))
	createClass(e)
	trackCapacity(e, true)
	publish(e, nodeCapacity(e, "capacity", "a").Capacity("50Gi"))
	e.CreatePVC(made(e, "data", "60Gi"))
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	e.WaitUnschedulable(pod, noSpace)
	for name, c := range canaries() {
		waiting := c.wait(e, name)
		e.WaitUnschedulable(waiting)
		before := e.Shared().Attempts(pod)
		if c.useless != nil {
			c.useless(e)
		}
		if seen := e.SeenPod(name); seen.Spec.NodeName != "" {
			t.Errorf("%s: the canary is placed before its time", name)
		}
		c.helps(e, name)
		e.Wait("the canary of "+name, func() bool {
			claim := e.SeenPVC(name)
			return e.SeenPod(name).Spec.NodeName != "" || claim != nil && claim.Annotations[plan.AnnSelectedNode] != ""
		})
		if after := e.Shared().Attempts(pod); after != before {
			t.Errorf("%s: events that cannot help the pod led to %d attempts to place it", name, after-before)
		}
	}
	publish(e, nodeCapacity(e, "capacity", "a").Capacity("60Gi"))
	e.WaitPVC("data", "sent to node a", selects(e, "a"))
}

// canaries are by what happens to.
func canaries() map[string]canary {
	return map[string]canary{
		"nodes": {
			wait: func(e *fixture.Env, name string) *v1.Pod {
				e.CreatePVs(e.LocalPV("on-new", "new"))
				return waitFor(e, e.PVC(name))
			},
			useless: func(e *fixture.Env) {
				e.AddNodes(e.Node("b"))
				e.PatchNode("a", labelled("rack"))
			},
			helps: func(e *fixture.Env, _ string) { e.AddNodes(e.Node("new")) },
		},
		"claims": {
			wait: func(e *fixture.Env, name string) *v1.Pod {
				e.CreatePVs(e.LocalPV("for-claim", "a").ClaimRef(e.Namespace, name, ""))
				return e.CreatePod(e.Pod(name).PVC(name))
			},
			useless: func(e *fixture.Env) {
				e.CreatePVC(made(e, "of-nobody", "1Gi"))
				e.PatchPVC("data", labelled("rack"))
			},
			helps: func(e *fixture.Env, name string) { e.CreatePVC(e.PVC(name)) },
		},
		"classes": {
			wait: func(e *fixture.Env, name string) *v1.Pod {
				class := e.CreateClass(e.Class("not-here").Provisioner("stowage.dev/nobody").AllowedTopology(v1.LabelHostname, "none"))
				return waitFor(e, e.PVC(name).Class(class.Name))
			},
			useless: func(e *fixture.Env) {
				e.CreateClass(e.Class("of-nobody").Provisioner(driver(e)))
				patchClass(e, "made", labelled("touched"))
			},
			helps: func(e *fixture.Env, _ string) {
				patchClass(e, "not-here", map[string]any{"allowedTopologies": builders.MakeClass("").AllowedTopology(v1.LabelHostname, e.Name("a")).Obj().AllowedTopologies})
			},
		},
		"capacity": {
			wait: func(e *fixture.Env, name string) *v1.Pod {
				class := e.CreateClass(e.Class("no-capacity").Provisioner(driver(e)))
				return waitFor(e, e.PVC(name).Class(class.Name))
			},
			useless: func(e *fixture.Env) {
				publish(e, nodeCapacity(e, "capacity", "a").Capacity("59Gi"), // more than before
					nodeCapacity(e, "elsewhere", "nowhere").Capacity("500Gi"), nodeCapacity(e, "small", "a").Capacity("500Gi").Max("59Gi"))
			},
			helps: func(e *fixture.Env, _ string) {
				publish(e, nodeCapacity(e, "other", "a").Class(e.Name("no-capacity")).Capacity("500Gi"))
			},
		},
		"drivers": {
			wait: func(e *fixture.Env, name string) *v1.Pod {
				writeDriver(e, e.Name("counted"), true)
				class := e.CreateClass(e.Class("counted").Provisioner(e.Name("counted")))
				return waitFor(e, e.PVC(name).Class(class.Name))
			},
			useless: func(e *fixture.Env) {
				writeDriver(e, e.Name("of-nobody"), true)
				writeDriver(e, e.Name("of-nobody"), false)
				annotateDriver(e)
			},
			helps: func(e *fixture.Env, _ string) { writeDriver(e, e.Name("counted"), false) },
		},
		"csi-nodes": inTreeCanary(),
		"pods": {
			wait: func(e *fixture.Env, name string) *v1.Pod {
				e.WaitScheduled(e.CreatePod(e.Pod("large").NodeSelector(v1.LabelHostname, e.Name("a")).Requests("20", "")))
				return e.CreatePod(e.Pod(name).NodeSelector(v1.LabelHostname, e.Name("a")).Requests("20", ""))
			},
			helps: func(e *fixture.Env, _ string) { e.DeletePod(e.SeenPod("large")) },
		},
	}
}

// inTreeCanary has a claim bound to an in-tree volume with the deprecated zone label.
// The node has the label of the CSI driver that replaced it, which
// counts as soon as the node has the migration annotation.
func inTreeCanary() canary {
	return canary{
		wait: func(e *fixture.Env, name string) *v1.Pod {
			e.CreatePVsUnseen(e.PV("in-tree").ClaimRef(e.Namespace, name, "").
				Source(v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}).
				Affinity(builders.Term(builders.In(v1.LabelFailureDomainBetaZone, "us-1a"))))
			e.CreatePVC(e.PVC(name).VolumeName(e.Name("in-tree")))
			e.WaitBound(name, "in-tree")
			return e.CreatePod(e.Pod(name).PVC(name))
		},
		useless: func(e *fixture.Env) { createCSINode(e, "b", "kubernetes.io/cinder") },
		helps:   func(e *fixture.Env, _ string) { createCSINode(e, "a", "kubernetes.io/aws-ebs") },
	}
}

// waitFor creates a claim and a pod of its name that uses it.
func waitFor(e *fixture.Env, claim *builders.PVC) *v1.Pod {
	e.T.Helper()
	name := e.CreatePVC(claim).Name
	return e.CreatePod(e.Pod(name).PVC(name))
}

// labelled is a patch that sets a label of any object.
func labelled(key string) any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{key: "any"}}}
}

func patchClass(e *fixture.Env, name string, patch any) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	data, err := json.Marshal(patch)
	if err == nil {
		_, err = e.Client.StorageV1().StorageClasses().Patch(ctx, e.Name(name), types.MergePatchType, data, metav1.PatchOptions{})
	}
	if err != nil {
		e.T.Fatal(err)
	}
}

// annotateDriver changes an irrelevant annotation of the Env's CSIDriver.
func annotateDriver(e *fixture.Env) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	patch := []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`)
	if _, err := e.Client.StorageV1().CSIDrivers().Patch(ctx, driver(e), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		e.T.Fatal(err)
	}
}

func createCSINode(e *fixture.Env, node, migrated string) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	object := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: e.Name(node), Labels: e.NodeSelector(), Annotations: map[string]string{v1.MigratedPluginsAnnotationKey: migrated},
	}}
	if _, err := e.Client.StorageV1().CSINodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		e.T.Fatal(err)
	}
}
