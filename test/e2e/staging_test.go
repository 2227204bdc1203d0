// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/pkg/pav/pavclient"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// Nodes of stagingSite.
const (
	stagingOne = "staging-one"
	stagingTwo = "staging-two"
)

// stagingSite is a cluster of two nodes with the controller and the node service of PavProvisioners.
var stagingSite = frame.NewSite(install.Options(install.Config{
	Folders: []string{"crd", "crd/pav", "controller", "csi"},
	Files:   []string{"provisioner/namespace.yaml", "provisioner/rbac.yaml", "controller/pav-volumes.yaml"},
	Parts:   []string{"controller", "pav-reporter", "csi"},
	Nodes:   []realnode.NodeSpec{frame.Node(stagingOne), frame.Node(stagingTwo)},
	Configs: map[string]string{install.Controller: `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
pavVolumes: {enabled: true, reporterImage: "stowage.dev/stowage-pav-reporter:dev"}
`},
}))

// stagingPods is a part of provisioners: pods that have the programs of the node, and a folder of it at /store.
// Nodes share it, as if it was on a network.
const stagingPods = `
apiVersion: stowage.dev/v1alpha1
kind: PavProvisioner
metadata: {name: x}
spec:
  provisioningModes: [Dynamic]
  backoff: {initial: 100ms, max: 1s}
  volumeValidation:
    volumeModes: [Filesystem, Block]
    accessModes: [ReadWriteOnce, ReadWriteMany, ReadWriteOncePod]
  volumeCreation:
    capacity: "{{ requestedMinCapacity }}"
  volumeStaging:
    podTemplate:
      spec:
        restartPolicy: Never
        terminationGracePeriodSeconds: 1
        containers:
        - name: main
          image: IMAGE
          imagePullPolicy: Never
          command: [sh, -ec, "{{ script }}"]
          env: &env
          - {name: HANDLE, value: "{{ handle }}"}
          securityContext: &security {privileged: true}
          volumeMounts: &mounts
          - {name: store, mountPath: /store}
          - {name: usr, mountPath: /usr, readOnly: true}
          - {name: lib, mountPath: /lib, readOnly: true}
          - {name: lib64, mountPath: /lib64, readOnly: true}
          - {name: dev, mountPath: /dev}
        volumes: &volumes
        - {name: store, hostPath: {path: /var/lib/stowage/store, type: DirectoryOrCreate}}
        - {name: usr, hostPath: {path: /usr}}
        - {name: lib, hostPath: {path: /usr/lib}}
        - {name: lib64, hostPath: {path: /usr/lib64}}
        - {name: dev, hostPath: {path: /dev}}
  volumeUnstaging:
    podTemplate:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: IMAGE
          imagePullPolicy: Never
          command: [sh, -ec, "{{ script }}"]
          env: *env
          securityContext: *security
          volumeMounts: *mounts
        volumes: *volumes
`

// staging is a test with a PavProvisioner and a class, which have the name of its namespace.
type staging struct {
	*frame.Env
	clients *pavclient.Clients
}

// newStaging makes a provisioner whose staging and unstaging pods run shell scripts. edit are texts of the
// provisioner, each followed by another that replaces it.
func newStaging(t *testing.T, stage, unstage string, edit ...string) *staging {
	t.Helper()
	e := stagingSite.New(t)
	clients, err := pavclient.New(e.Cluster.RESTConfig())
	e.Do(err)
	s := &staging{e, clients}
	t.Cleanup(s.log)
	p := &stowage.PavProvisioner{}
	text := strings.ReplaceAll(stagingPods, "IMAGE", realnode.BusyboxImage)
	for _, script := range []string{stage, unstage} {
		text = strings.Replace(text, `"{{ script }}"`, quoted(script), 1)
	}
	e.Do(yaml.UnmarshalStrict([]byte(strings.NewReplacer(edit...).Replace(text)), p))
	p.Name = e.Namespace
	_, err = clients.Provisioners.Create(e.Context, p, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	e.Do(err)
	frame.Wait(e, clients.Provisioners, p.Name, "accepted", func(p *stowage.PavProvisioner) bool {
		return meta.IsStatusConditionTrue(p.Status.Conditions, stowage.ConditionAccepted)
	})
	e.Create(builders.MakeClass(e.Namespace).Provisioner(p.Name).Immediate().Obj())
	for _, node := range []string{stagingOne, stagingTwo} {
		s.registered(node)
	}
	return s
}

// registered waits until kubelet of a node has the driver.
func (s *staging) registered(node string) {
	s.T.Helper()
	frame.Wait(s.Env, s.Client.StorageV1().CSINodes(), node, "registered", func(n *storagev1.CSINode) bool {
		return slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == s.Namespace })
	})
}

// node adds a node for a test alone, with the driver.
func (s *staging) node() *realnode.Node {
	s.T.Helper()
	node := s.AddNodes(frame.Node("n"))[0]
	s.registered(node.Name)
	return node
}

func quoted(text string) string { return fmt.Sprintf("%q", text) }

// log logs what frame.Env.Dump omits, for a failed test.
func (s *staging) log() {
	if !s.T.Failed() {
		return
	}
	ctx, cancel := deadline.Context(context.Background())
	defer cancel()
	for _, args := range []string{
		"get pavstagings --output=yaml", "get pods --namespace=stowage-pav --output=wide",
		"logs --namespace=stowage-system --selector=app.kubernetes.io/name=stowage-csi --prefix --tail=100",
		"logs --namespace=stowage-system --selector=app.kubernetes.io/name=stowage-controller --prefix --tail=100",
	} {
		out, err := s.Cluster.Kubectl(ctx, strings.Fields(args)...)
		s.T.Logf("kubectl %s: %v\n%s", args, err, out)
	}
}

// on runs a script on a node and returns its output.
func (s *staging) on(node, script string, args ...string) string {
	s.T.Helper()
	out, err := s.Cluster.Node(node).Run(s.Context, nil, append([]string{"sh", "-c", script, "sh"}, args...)...)
	s.Do(err)
	return out
}

// claim creates a claim and returns the name of its volume.
func (s *staging) claim(name string, change func(*corev1.PersistentVolumeClaim)) string {
	s.T.Helper()
	claim := s.Claim(name, s.Namespace)
	if change != nil {
		change(claim)
	}
	s.Create(claim)
	return s.WaitPVC(name, "bound", func(p *corev1.PersistentVolumeClaim) bool { return p.Status.Phase == corev1.ClaimBound }).Spec.VolumeName
}

// pod creates a pod that runs a script on a node with claims.
func (s *staging) pod(name, node, script string, change func(*corev1.Pod), claims ...string) {
	s.T.Helper()
	pod := s.Shell(name, script, claims...)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	if change != nil {
		change(pod)
	}
	s.Create(pod)
}

// logs returns what a pod that has succeeded has written.
func (s *staging) logs(name string) string {
	s.T.Helper()
	pod := s.WaitPod(name, "at an end", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	out := s.Kubectl("logs", name)
	if !frame.Succeeded(pod) {
		s.T.Fatalf("pod %s has failed: %s", name, out)
	}
	return out
}

// remove deletes pods, and waits until they are gone.
func (s *staging) remove(pods ...string) {
	s.T.Helper()
	s.Kubectl(append([]string{"delete", "pod", "--wait"}, pods...)...)
}

// unstaged waits until no node has the volume, and checks that nothing is left of it.
func (s *staging) unstaged(volume string) {
	s.T.Helper()
	for _, node := range []string{stagingOne, stagingTwo} {
		name := stowage.PavStagingName(s.Namespace, volume, node)
		s.WaitGone("pavstaging/" + name)
		left := s.on(node, `for i in 1 2 3 4 5 6 7 8 9 10; do [ -e /var/lib/stowage/pav/"$1" ] || exit 0; sleep 0.5; done; find /var/lib/stowage/pav/"$1"; grep "$1" /proc/self/mountinfo || true`, name[:32])
		if left != "" {
			s.T.Errorf("node %s: volume %s is unstaged, but left:\n%s", node, volume, left)
		}
	}
}

// TestStaging: volumes of PavProvisioners on real kubelets.
func TestStaging(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"directory": testStagingDirectory, "fuse": testStagingFUSE, "block": testStagingBlock, "moved": testStagingMoved,
		"fails": testStagingFails, "restarts": testStagingRestarts, "escapes": testStagingEscapes,
		"drained": testStagingDrained, "rebooted": testStagingRebooted, "lost": testStagingLost, "ends": testStagingEnds,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t) })
	}
}

// boundStore is the script of a staging pod that mounts a folder of the store, and ends. Its mount stays, until
// the node service unmounts it.
const boundStore = `mkdir -p /store/$HANDLE /pav/volume; mount --bind /store/$HANDLE /pav/volume`

// testStagingDirectory: pods of one node share a volume, also with a pod of another node. One has it
// read-only.
func testStagingDirectory(t *testing.T) {
	s := newStaging(t, boundStore, "true")
	volume := s.claim("c", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	})
	s.pod("writes", stagingOne, "echo hello >/data/c/file && sleep 1000", nil, "c")
	s.WaitPod("writes", "running", running)
	s.pod("reads", stagingOne, "cat /data/c/file; echo x >/data/c/other && exit 1; exit 0", func(p *corev1.Pod) {
		p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	}, "c")
	if got := s.logs("reads"); !strings.Contains(got, "hello") || !strings.Contains(got, "Read-only file system") {
		t.Errorf("the pod that reads wrote %q", got)
	}
	s.pod("elsewhere", stagingTwo, "ls /data/c; echo more >/data/c/file2", nil, "c")
	s.logs("elsewhere")
	s.remove("writes", "reads", "elsewhere")
	s.unstaged(volume)
}

// testStagingFUSE: a staging pod serves a file system. Its server is killed while a pod uses the volume,
// which the next pod has again.
func testStagingFUSE(t *testing.T) {
	s := newStaging(t, `mkdir -p /store/$HANDLE /pav/volume; ls -la /dev/fuse; exec bindfs -f -o allow_other,fsname=store /store/$HANDLE /pav/volume & pid=$!
until grep -q " /pav/volume " /proc/self/mountinfo; do sleep 0.1; done; touch /pav/ready; trap 'kill $pid' TERM; wait $pid; wait $pid`, "true")
	volume := s.claim("c", nil)
	s.pod("first", stagingOne, "echo hello >/data/c/file; stat -f -c %T /data/c; sleep 1000", nil, "c")
	s.WaitPod("first", "running", running)
	frame.Wait(s.Env, s.clients.Stagings, stowage.PavStagingName(s.Namespace, volume, stagingOne), "staged", func(p *stowage.PavStaging) bool { return p.Status.Phase == stowage.PavStagingStaged })
	s.on(stagingOne, `pkill -KILL -f "fsname=store /store/$1"`, volume)
	s.WaitEvent(s.Namespace, "c", string(rules.StagingFailed), "")
	s.remove("first")
	s.pod("second", stagingOne, "cat /data/c/file", nil, "c")
	if diff := cmp.Diff("hello\n", s.logs("second")); diff != "" {
		t.Errorf("the second pod read (-want +got):\n%s", diff)
	}
	s.remove("second")
	s.unstaged(volume)
}

// testStagingBlock: a block volume is a loop device, which keeps its content.
func testStagingBlock(t *testing.T) {
	s := newStaging(t, `[ -e /store/$HANDLE ] || truncate -s 16M /store/$HANDLE
device=$(/usr/sbin/losetup -f --show /store/$HANDLE)
mknod /pav/volume b $(stat -c '0x%t 0x%T' $device)`, `/usr/sbin/losetup -j /store/$HANDLE | cut -d: -f1 | while read -r device; do /usr/sbin/losetup -d $device; done`)
	t.Cleanup(func() { // of a failed test
		if t.Failed() {
			s.on(stagingOne, `losetup -l --noheadings --output=NAME,BACK-FILE | while read -r device file; do case $file in */pvc-*) losetup -d $device; esac; done`)
		}
	})
	block := corev1.PersistentVolumeBlock
	volume := s.claim("c", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block })
	device := func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = nil
		p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "c", DevicePath: "/dev/volume"}}
	}
	s.pod("writes", stagingOne, "echo hello | dd of=/dev/volume conv=fsync", device, "c")
	s.logs("writes")
	s.remove("writes")
	s.unstaged(volume)
	s.pod("reads", stagingOne, "head -n 1 /dev/volume; blockdev --getsize64 /dev/volume", device, "c")
	if diff := cmp.Diff("hello\n16777216\n", s.logs("reads")); diff != "" {
		t.Errorf("the second pod read (-want +got):\n%s", diff)
	}
	s.remove("reads")
	s.unstaged(volume)
}

// testStagingMoved: a volume that one node can use at a time follows its pod to another node.
func testStagingMoved(t *testing.T) {
	s := newStaging(t, boundStore, "true")
	volume := s.claim("c", nil)
	s.pod("first", stagingOne, "echo hello >/data/c/file; sleep 1000", nil, "c")
	s.WaitPod("first", "running", running)
	s.pod("second", stagingTwo, "echo hello >/data/c/file", nil, "c")
	frame.Wait(s.Env, s.clients.Stagings, stowage.PavStagingName(s.Namespace, volume, stagingTwo), "waiting", func(p *stowage.PavStaging) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionStaged)
		return c != nil && c.Reason == string(rules.StagedElsewhere) && strings.Contains(c.Message, stagingOne)
	})
	s.remove("first")
	s.logs("second")
	s.remove("second")
	s.unstaged(volume)
}

// testStagingFails: what a staging pod reports is in the events of the pod that waits.
func testStagingFails(t *testing.T) {
	s := newStaging(t, `if [ -e /store/$HANDLE ]; then mkdir /pav/volume; else touch /store/$HANDLE; echo "no such export" >/pav/error; exit 1; fi`, "true")
	volume := s.claim("c", nil)
	s.pod("waits", stagingOne, "true", nil, "c")
	s.WaitEvent(s.Namespace, "waits", "FailedMount", "no such export")
	s.logs("waits")
	s.remove("waits")
	s.unstaged(volume)
}

// testStagingRestarts: the node service and the controller are replaced while volumes are used and
// unstaged.
func testStagingRestarts(t *testing.T) {
	s := newStaging(t, boundStore, "sleep 3")
	volume := s.claim("c", nil)
	s.pod("uses", stagingOne, "echo hello >/data/c/file; until [ -e /data/c/end ]; do sleep 0.2; done; cat /data/c/file", nil, "c")
	s.WaitPod("uses", "running", running)
	s.Kubectl("delete", "pod", "--namespace=stowage-system", "--selector=app.kubernetes.io/name=stowage-csi", "--wait")
	s.Kubectl("rollout", "status", "--namespace=stowage-system", "daemonset/stowage-csi")
	s.Kubectl("exec", "uses", "--", "touch", "/data/c/end")
	s.logs("uses")
	s.pod("again", stagingOne, "cat /data/c/file", nil, "c")
	s.logs("again")
	s.Kubectl("delete", "pod", "--wait=false", "uses", "again")
	s.Kubectl("delete", "pod", "--namespace=stowage-system", "--selector=app.kubernetes.io/name in (stowage-csi, stowage-controller)", "--wait")
	s.unstaged(volume)
}

// testStagingDrained: a drain ends, although a staging pod in the namespace of the claim is protected.
func testStagingDrained(t *testing.T) {
	s := newStaging(t, "mkdir -p /store/$HANDLE /pav/volume; mount --bind /store/$HANDLE /pav/volume; touch /pav/ready; trap 'exit 0' TERM; sleep 10000 & wait $!", "true",
		"volumeStaging:\n    podTemplate:\n", "volumeStaging:\n    podTemplate:\n      metadata: {namespace: '{{ pvc.metadata.namespace }}'}\n",
		"  backoff:", "  podNamespaces: {claim: true}\n  backoff:")
	node := s.node()
	volume := s.claim("c", nil)
	s.pod("uses", node.Name, "echo hello >/data/c/file; sleep 10000", nil, "c")
	s.WaitPod("uses", "running", running)
	frame.Wait(s.Env, s.Client.PolicyV1().PodDisruptionBudgets(s.Namespace), "stowage-pav-staging", "in force", func(b *policyv1.PodDisruptionBudget) bool {
		return b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy > 0 && b.Status.DisruptionsAllowed == 0
	})
	s.Kubectl("drain", node.Name, "--force", "--ignore-daemonsets", "--delete-emptydir-data")
	s.WaitGone("pavstaging/" + stowage.PavStagingName(s.Namespace, volume, node.Name))
}

// testStagingRebooted: a node that was cut off from power has the volume again, for the pod that had it.
func testStagingRebooted(t *testing.T) {
	s := newStaging(t, boundStore, "true")
	node := s.node()
	volume := s.claim("c", nil)
	s.pod("uses", node.Name, "cat /data/c/file || echo hello >/data/c/file; sleep 10000", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }, "c")
	s.WaitPod("uses", "running", running)
	s.Do(node.Kill())
	s.Do(node.Start(s.Context))
	s.WaitPod("uses", "restarted", func(p *corev1.Pod) bool {
		return running(p) && p.Status.ContainerStatuses[0].RestartCount > 0
	})
	if got := s.Kubectl("logs", "uses"); got != "hello\n" {
		t.Errorf("after the node was rebooted, the volume has %q", got)
	}
	frame.Wait(s.Env, s.clients.Stagings, stowage.PavStagingName(s.Namespace, volume, node.Name), "staged again", func(p *stowage.PavStaging) bool {
		return p.Status.Phase == stowage.PavStagingStaged && p.Status.StagedAttempt > 1
	})
	s.remove("uses")
	s.WaitGone("pavstaging/" + stowage.PavStagingName(s.Namespace, volume, node.Name))
}

// testStagingLost: the volume of a node that is lost goes to another one when an administrator has declared
// the loss, and not before.
func testStagingLost(t *testing.T) {
	s := newStaging(t, boundStore, "true")
	node := s.node()
	volume := s.claim("c", nil)
	s.pod("first", node.Name, "sleep 10000", nil, "c")
	s.WaitPod("first", "running", running)
	s.Do(node.Kill())
	s.pod("second", stagingOne, "true", nil, "c")
	frame.Wait(s.Env, s.clients.Stagings, stowage.PavStagingName(s.Namespace, volume, stagingOne), "waiting", func(p *stowage.PavStaging) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionStaged)
		return c != nil && c.Reason == string(rules.StagedElsewhere) && strings.Contains(c.Message, node.Name)
	})
	s.Kubectl("taint", "node", node.Name, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	s.WaitEvent(s.Namespace, "c", string(rules.Abandoned), "out-of-service")
	s.logs("second")
	s.remove("second")
}

// testStagingEnds: a volume that is used is unstaged by the revision that staged it, whatever happens to its
// provisioner, its CSIDriver and its claim.
func testStagingEnds(t *testing.T) {
	s := newStaging(t, boundStore, "touch /store/$HANDLE/unstaged")
	volume := s.claim("c", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	s.pod("uses", stagingOne, "sleep 10000", nil, "c")
	s.WaitPod("uses", "running", running)
	s.Kubectl("patch", "pav", s.Namespace, "--type=merge", `--patch={"spec":{"volumeUnstaging":{"podTemplate":"{{ undefined }}"}}}`)
	frame.Wait(s.Env, s.clients.Provisioners, s.Namespace, "accepted", func(p *stowage.PavProvisioner) bool {
		return p.Status.ObservedGeneration == 2 && meta.IsStatusConditionTrue(p.Status.Conditions, stowage.ConditionAccepted)
	})
	s.Kubectl("delete", "--wait=false", "pav/"+s.Namespace)
	s.Kubectl("delete", "csidriver", s.Namespace)
	s.Kubectl("delete", "--wait=false", "pvc/c")
	s.remove("uses")
	s.unstaged(volume)
	s.on(stagingOne, `test -e /var/lib/stowage/store/"$1"/unstaged`, volume)
	s.WaitGone("pav/" + s.Namespace)
	s.WaitGone("pv/" + volume)
}

// testStagingEscapes: a volume is never a file of the node or another volume.
func testStagingEscapes(t *testing.T) {
	for row, tc := range map[string]struct{ script, message string }{
		"an absolute link":          {"ln -s /etc /pav/volume", "is a link to a path that does not exist inside of /pav"},
		"a link of procfs":          {"ln -s /proc/1/root /pav/volume", "is a link to a path that does not exist inside of /pav"},
		"a regular file":            {"touch /pav/volume", "must be a directory"},
		"a device for a directory":  {"mknod /pav/volume b 7 0", "must be a Directory"},
		"a character device":        {"mknod /pav/volume c 1 3", "must be a directory or a block device"},
		"nothing":                   {"true", "/pav/volume does not exist"},
		"a link to a mounted /proc": {"mkdir /pav/p; ln -s p/1/root /pav/volume; mount -t proc proc /pav/p", "/pav/volume"},
	} {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			s := newStaging(t, tc.script, "true")
			volume := s.claim("c", nil)
			s.pod("waits", stagingOne, "true", nil, "c")
			s.WaitEvent(s.Namespace, "waits", "FailedMount", tc.message)
			s.remove("waits")
			s.unstaged(volume)
		})
	}
}
