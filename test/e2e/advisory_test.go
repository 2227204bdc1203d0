// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// advised is a cluster whose only scheduler is the stock one, with the extender in mode Advisory.
var advised = frame.NewSite(install.Options(withExtender("advisory")))

// TestAdvisory: stock kube-scheduler binds volumes itself, and calls the extender too.
func TestAdvisory(t *testing.T) {
	needsPolicies(t)
	advised.Parallel(t)
	e := advised.New(t)
	// All replicas answer, so that the rollout ends.
	e.Kubectl("--namespace=kube-system", "rollout", "status", "deployment/stowage-extender")
	plugPair(e)
	writeRead(e, "pairs", "two")
	onlyClaimsAreMarked(e)
}

// TestAdvisoryCountsCapacity: a node has capacity for each of a pod's two claims, but not for
// both. kube-scheduler checks each claim separately, so the extender keeps the pod pending until
// a node has capacity for both. This takes seconds, or five minutes if kube-scheduler retries
// before the extender has observed the larger capacity: then only kube-scheduler's periodic
// flush requeues the pod. The test's log has the time.
func TestAdvisoryCountsCapacity(t *testing.T) {
	needsPolicies(t)
	advised.Parallel(t)
	e := advised.New(t)
	class, driver := e.Name("counted"), e.Name("driver")
	_, err := e.Client.StorageV1().CSIDrivers().Create(e.Context, builders.MakeCSIDriver(driver).StorageCapacity(true).Obj(), metav1.CreateOptions{})
	e.Do(err)
	t.Cleanup(func() { e.Kubectl("delete", "csidriver", driver) })
	storageClass := e.Class(class)
	storageClass.Provisioner = driver
	e.Create(storageClass)
	capacities := e.Client.StorageV1().CSIStorageCapacities(e.Namespace)
	for _, node := range []string{"one", "two"} {
		object := builders.MakeCapacity(node, class).Namespace(e.Namespace).Hostname(node).Capacity("100Mi").Obj()
		_, err := capacities.Create(e.Context, object, metav1.CreateOptions{})
		e.Do(err)
	}

	const script = "for claim in left right; do echo $claim >/data/$claim/word && cat /data/$claim/word || exit 1; done"
	for _, name := range []string{"left", "right"} {
		claim := e.Claim(name, class)
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("60Mi")
		e.Create(claim)
	}
	e.Create(e.Shell("both", script, "left", "right"))
	refused(e, "both", "2 node(s) did not have enough free storage")

	two, err := capacities.Get(e.Context, "two", metav1.GetOptions{})
	e.Do(err)
	two.Capacity = new(resource.MustParse("200Mi"))
	grown := time.Now()
	_, err = capacities.Update(e.Context, two, metav1.UpdateOptions{})
	e.Do(err)
	for _, name := range []string{"left", "right"} {
		provision(e, name)
	}
	t.Logf("the pod had a node %s after node two had capacity for both claims", time.Since(grown).Round(time.Second))
	if got, node := finished(e, "both"); got != "left\nright\n" || node != "two" {
		t.Errorf("the pod on node %s reads %q, want both words, on two, which has capacity for both", node, got)
	}
}

// provision creates the volume of a claim as a CSI driver does, once the claim has a selected node:
// here it is a directory of that node.
func provision(e *frame.Env, claim string) {
	e.T.Helper()
	const selected = "volume.kubernetes.io/selected-node"
	c := e.WaitPVC(claim, "given a node", func(c *corev1.PersistentVolumeClaim) bool { return c.Annotations[selected] != "" })
	node, path := c.Annotations[selected], "/mnt/provisioned-"+e.Namespace+"-"+claim
	plug(e, node, realnode.Disk{Kind: realnode.Directory, Path: path})
	class, err := e.Client.StorageV1().StorageClasses().Get(e.Context, *c.Spec.StorageClassName, metav1.GetOptions{})
	e.Do(err)
	e.Create(builders.MakePV(e.Name(claim)).Class(class.Name).Hostname(node).Capacity("60Mi").
		ProvisionedBy(class.Provisioner).ClaimRef(c.Namespace, c.Name, string(c.UID)).
		ReclaimPolicy(corev1.PersistentVolumeReclaimRetain).
		Source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}).Obj())
}
