// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/e2e/frame"
)

// mountVolumes makes the file system of a node's volumes, if it is absent, and mounts it.
const mountVolumes = `set -e
mkdir -p /var/lib/btrfs-volumes
if [ ! -e /var/lib/btrfs ]; then
  truncate -s 512M /var/lib/btrfs
  mkfs.btrfs -q /var/lib/btrfs
fi
mount -o loop /var/lib/btrfs /var/lib/btrfs-volumes
btrfs quota enable /var/lib/btrfs-volumes`

// testStagingLocal: the example of local volumes. The replicas of a StatefulSet are placed by capacity,
// by kube-scheduler, and stay there with their volumes when their node is drained and rebooted. The leader
// is killed meanwhile. A volume holds no more than its size.
func testStagingLocal(t *testing.T) {
	s := newStagingWith(restartsSite.New(t))
	nodes := s.AddNodes(frame.Node("a"), frame.Node("b"))
	for i, node := range nodes {
		s.on(node.Name, mountVolumes)
		t.Cleanup(func() { s.on(node.Name, "umount /var/lib/btrfs-volumes") })
		s.Kubectl("annotate", "node", node.Name, fmt.Sprintf("btrfs-volumes/bytes=%dMi", 150-50*i)) // of 64Mi: 2, and 1
	}
	s.exampleOn("", "../../manifests/pav/examples/btrfs.yaml", s.Namespace, nil)
	for _, node := range nodes {
		s.registered(node.Name, s.Namespace)
	}
	s.Create(builders.MakeClass(s.Name("late")).Provisioner(s.Namespace).Obj())
	capacities := func(want ...string) {
		t.Helper()
		frame.Wait(s.Env, s.Client.StorageV1().CSIDrivers(), s.Namespace, "tracking capacity", func(d *storagev1.CSIDriver) bool { return *d.Spec.StorageCapacity })
		for i, node := range nodes {
			name := s.Kubectl("get", "csistoragecapacities", "--namespace=stowage-pav", "--selector="+wellknown.PavProvisionerLabel+"="+s.Namespace,
				`--output=jsonpath={.items[?(@.metadata.annotations.stowage\.dev/pav-node=="`+node.Name+`")].metadata.name}`)
			frame.Wait(s.Env, s.Client.StorageV1().CSIStorageCapacities("stowage-pav"), name, want[i]+" on node "+node.Name, func(c *storagev1.CSIStorageCapacity) bool {
				return c.Capacity.String() == want[i]
			})
		}
	}
	capacities("150Mi", "100Mi")

	s.localSet()
	s.killLeader() // while volumes are made and staged
	replicas := []string{"set-0", "set-1", "set-2"}
	placed := map[string][]string{}
	for _, name := range replicas {
		pod := s.WaitPod(name, "ready", frame.Ready)
		placed[pod.Spec.NodeName] = append(placed[pod.Spec.NodeName], name)
		s.Exec(name, "sh", "-c", "echo $HOSTNAME >/data/c/name; sync")
	}
	if len(placed[nodes[0].Name]) != 2 || len(placed[nodes[1].Name]) != 1 {
		t.Errorf("the replicas are on the nodes %v, want two on the first and one on the second", placed)
	}
	capacities("22Mi", "36Mi")
	if got := s.Exec("set-0", "sh", "-c", "dd if=/dev/urandom of=/data/c/file bs=1M count=80 2>&1; sync; rm /data/c/file"); !strings.Contains(got, "quota exceeded") {
		t.Errorf("80 MiB written into a volume of 64 MiB: %q", got)
	}

	first := placed[nodes[0].Name]
	same := func() {
		t.Helper()
		for _, name := range replicas {
			pod := s.WaitPod(name, "ready", frame.Ready)
			if onFirst := slices.Contains(first, name); onFirst != (pod.Spec.NodeName == nodes[0].Name) {
				t.Errorf("%s is on node %s, and its volume is not", name, pod.Spec.NodeName)
			}
			if diff := cmp.Diff(name+"\n", s.Exec(name, "cat", "/data/c/name")); diff != "" {
				t.Errorf("the volume of %s (-want +got):\n%s", name, diff)
			}
		}
	}
	s.killLeader() // whose successor unstages
	s.Kubectl("drain", nodes[0].Name, "--force", "--ignore-daemonsets", "--delete-emptydir-data")
	s.Kubectl("uncordon", nodes[0].Name)
	same()
	before := s.WaitPod(first[0], "ready", frame.Ready)
	s.Do(nodes[0].Kill())
	s.Do(nodes[0].Start(s.Context))
	s.on(nodes[0].Name, mountVolumes)
	s.killLeader()
	s.WaitPod(first[0], "restarted", func(p *corev1.Pod) bool {
		return frame.Ready(p) && (p.UID != before.UID || p.Status.ContainerStatuses[0].RestartCount > before.Status.ContainerStatuses[0].RestartCount)
	})
	same()

	s.Kubectl("delete", "statefulset/set", "--wait")
	for _, name := range replicas {
		volume := s.WaitPVC("c-"+name, "there", func(*corev1.PersistentVolumeClaim) bool { return true }).Spec.VolumeName
		s.Kubectl("delete", "pvc/c-"+name)
		if name == replicas[0] {
			s.killLeader()
		}
		s.WaitGone("pv/" + volume)
	}
	capacities("150Mi", "100Mi")
	for _, node := range nodes {
		if got := s.on(node.Name, "btrfs subvolume list /var/lib/btrfs-volumes"); got != "" {
			t.Errorf("node %s: all volumes are deleted, but left:\n%s", node.Name, got)
		}
	}
}

// localSet creates a StatefulSet of three replicas with a volume of 64 MiB each.
func (s *staging) localSet() {
	s.T.Helper()
	pod := s.Shell("", "exec sleep 1000000")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "c", MountPath: "/data/c"}}
	claim := s.Claim("c", s.Name("late"))
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("64Mi")
	labels := map[string]string{"app": "set"}
	_, err := s.Client.AppsV1().StatefulSets(s.Namespace).Create(s.Context, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels}, PodManagementPolicy: appsv1.ParallelPodManagement,
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*claim},
		},
	}, metav1.CreateOptions{})
	s.Do(err)
}
