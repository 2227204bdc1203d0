// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
)

// TestStatefulSet: each replica has two claims, whose volumes are on one node. Scaled up and
// down and up again and rolled, replicas find their data. When the set is deleted its claims
// are too, and all volumes are cleaned and published again.
func TestStatefulSet(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	nodes := []string{"one", "two", "three"}
	var disks []*corev1.PersistentVolume
	for _, node := range nodes {
		for i := range 2 {
			plug(e, node, realnode.Disk{Kind: realnode.Ext4, Path: slot("set", strconv.Itoa(i)), Size: 16 << 20})
		}
	}
	for _, node := range nodes {
		for i := range 2 {
			disks = append(disks, published(e, node, slot("set", strconv.Itoa(i))))
		}
	}
	s := newSet(e)
	s.change(`{"spec":{"replicas":3}}`)
	s.starts("1 1", "1 1", "1 1")
	s.change(`{"spec":{"replicas":1}}`)
	s.change(`{"spec":{"replicas":3}}`)
	s.starts("1 1", "2 2", "2 2")
	s.change(`{"spec":{"template":{"metadata":{"annotations":{"rolled":"once"}}}}}`)
	s.starts("2 2", "3 3", "3 3")
	e.Do(e.Client.AppsV1().StatefulSets(e.Namespace).Delete(e.Context, "set", metav1.DeleteOptions{}))
	for i, pv := range disks {
		published(e, nodes[i/2], localpv.PathOf(pv), pv)
		if got := on(e, e.Cluster.Node(nodes[i/2]), "ls -A "+localpv.PathOf(pv)); got != "lost+found\n" {
			t.Errorf("disk %s of node %s has %q after it was cleaned", localpv.PathOf(pv), nodes[i/2], got)
		}
	}
}

// set is the StatefulSet of a test, named set.
type set struct {
	e *frame.Env
}

// newSet makes a set of one replica, whose pods write a line into each volume when they start.
func newSet(e *frame.Env) set {
	e.T.Helper()
	const script = "for claim in data log; do echo $HOSTNAME >>/data/$claim/starts || exit 1; done; sync; exec sleep 1000000"
	pod := by(ours, e.Shell("", script))
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	labels := map[string]string{"app": "set"}
	o := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set", Namespace: e.Namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
		},
	}
	for _, name := range []string{"data", "log"} {
		o.Spec.VolumeClaimTemplates = append(o.Spec.VolumeClaimTemplates, *e.Claim(name, "set"))
		c := &o.Spec.Template.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/data/" + name})
	}
	_, err := e.Client.AppsV1().StatefulSets(e.Namespace).Create(e.Context, o, metav1.CreateOptions{})
	e.Do(err)
	s := set{e}
	s.wait(0)
	return s
}

// change patches the set and waits until all replicas are updated.
func (s set) change(patch string) {
	s.e.T.Helper()
	o, err := s.e.Client.AppsV1().StatefulSets(s.e.Namespace).Patch(s.e.Context, "set", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	s.e.Do(err)
	s.wait(o.Generation)
}

func (s set) wait(generation int64) {
	s.e.T.Helper()
	frame.Wait(s.e, s.e.Client.AppsV1().StatefulSets(s.e.Namespace), "set", "rolled out", func(o *appsv1.StatefulSet) bool {
		want := *o.Spec.Replicas
		return o.Status.ObservedGeneration >= generation && o.Status.Replicas == want &&
			o.Status.ReadyReplicas == want && o.Status.UpdatedReplicas == want
	})
}

// starts compares how often each replica has started, by its two volumes, with want,
// and checks that each is on another node.
func (s set) starts(want ...string) {
	s.e.T.Helper()
	nodes := map[string]string{}
	for i, counts := range want {
		name := fmt.Sprintf("set-%d", i)
		pod := s.e.WaitPod(name, "ready", frame.Ready)
		if other, taken := nodes[pod.Spec.NodeName]; taken {
			s.e.T.Errorf("%s and %s are on node %s, which has disks for one of them", other, name, pod.Spec.NodeName)
		}
		nodes[pod.Spec.NodeName] = name
		got := s.e.Exec(name, "sh", "-c", "for claim in data log; do grep -xc $HOSTNAME /data/$claim/starts; done | xargs")
		if got != counts+"\n" {
			s.e.T.Errorf("%s has started %q times by its volumes, want %q", name, got, counts)
		}
	}
}
