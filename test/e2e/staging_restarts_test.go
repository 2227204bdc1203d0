// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// TestStagingRestarts: what acts on volumes of PavProvisioners is killed and updated. One test runs after the
// other, since each ends pods that the others wait for.
func TestStagingRestarts(t *testing.T) {
	restartsSite.ParallelFirst(t)
	random := rand.New(rand.NewPCG(campaign.Begin(t), 0))
	t.Run("killed", testStagingKilled)
	t.Run("replaced", testStagingReplaced)
	t.Run("local", testStagingLocal)
	for range campaign.Scale(1, 3) {
		t.Run("in any step", func(t *testing.T) { testStagingAnyStep(t, random) })
	}
}

// loopFiles is a test with volumes in files of one node, and volumes that are encrypted on them.
type loopFiles struct {
	*staging
	node *realnode.Node
	kill func()
}

// killLeader kills the leader, once another one than the last leads.
func (s *staging) killLeader() {
	s.T.Helper()
	frame.Wait(s.Env, s.Client.CoordinationV1().Leases(install.Namespace), "stowage-controller", "held by another replica", func(lease *coordinationv1.Lease) bool {
		holder, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		return holder != "" && holder != s.killed
	})
	pod := leader(s.Env, install.Namespace, "stowage-controller")
	s.killed = pod.Name
	s.killPod(pod)
}

// killPod kills the process of a pod, and deletes the pod: kubelet delays the start of containers that end often.
func (s *staging) killPod(pod *corev1.Pod) {
	s.T.Helper()
	s.on(pod.Spec.NodeName, ctr+"kill --signal SIGKILL $1", strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://"))
	s.Kubectl("delete", "pod", pod.Name, "--namespace="+pod.Namespace)
}

// testStagingAnyStep: the leader is killed in each step of a volume in a file, whose pods run once each, and
// while a volume that is stacked on it is made, used and deleted. In full strength other parts are killed,
// too. In the end nothing is left.
func testStagingAnyStep(t *testing.T, random *rand.Rand) {
	l := &loopFiles{staging: newStagingWith(restartsSite.New(t))}
	l.node = l.AddNodes(frame.Node("n"))[0]
	l.exampleOn("", "testdata/loop-files.yaml", l.Namespace, nil)
	l.exampleOn(l.node.Name, "testdata/luks.yaml", l.Name("luks"), nil)
	for _, driver := range []string{l.Namespace, l.Name("luks")} {
		l.registered(l.node.Name, driver)
	}
	l.Create(builders.MakeClass(l.Name("late")).Provisioner(l.Namespace).Obj())
	l.Kubectl("create", "secret", "generic", "key", "--from-literal=passphrase=correct horse")
	others := []func(){
		func() {
			l.Kubectl("rollout", "status", "--namespace="+install.Namespace, "daemonset/stowage-csi")
			l.killPod(l.service(l.node.Name))
		},
		func() { restart(l.Env, l.node.Kubelet()) },
		func() { restart(l.Env, l.node.Containerd()) },
	}
	l.kill = func() {
		l.killLeader()
		if campaign.Scale(false, true) {
			others[random.IntN(len(others))]()
		}
	}
	volume := l.made("c")
	l.stacked("c")
	l.deleted("c", volume)
	if left := l.on(l.node.Name, `cd /var/lib/loop-files; ls | grep -v '\.log$' || true; for f in $(ls); do /usr/sbin/losetup --associated "$f"; done`); left != "" {
		t.Errorf("all volumes are deleted, but left:\n%s", left)
	}
}

// hold has the pods of a step wait.
func (l *loopFiles) hold(step string) {
	l.T.Helper()
	l.on(l.node.Name, `mkdir -p /var/lib/loop-files; touch /var/lib/loop-files/hold-"$1"`, step)
}

// killIn kills parts while the pod of a held step runs, and releases it. steps are those of the claim so far.
func (l *loopFiles) killIn(claim string, steps ...string) {
	l.T.Helper()
	l.logged(claim, steps...)
	l.kill()
	l.on(l.node.Name, `rm /var/lib/loop-files/hold-"$1"`, steps[len(steps)-1])
}

// logged waits until the steps of a claim have begun, each once.
func (l *loopFiles) logged(claim string, steps ...string) {
	l.T.Helper()
	log := l.on(l.node.Name, `for i in $(seq 600); do
  log=$(cat /var/lib/loop-files/"$1".log 2>/dev/null || true); [ "$(echo $log | wc -w)" -lt "$2" ] || break; sleep 0.1
done; echo "$log"`, claim, fmt.Sprint(len(steps)))
	if diff := cmp.Diff(steps, strings.Fields(log)); diff != "" {
		l.T.Fatalf("steps of claim %s (-want +got):\n%s", claim, diff)
	}
}

// made creates a claim, whose volume a pod uses for a while, with kills in each step, and returns its volume.
func (l *loopFiles) made(name string) string {
	l.T.Helper()
	for _, step := range []string{"validation", "creation", "staging", "unstaging"} {
		l.hold(step)
	}
	claim := l.Claim(name, l.Name("late"))
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("64Mi")
	l.Create(claim)
	l.pod("writes", l.node.Name, "df -m /data/"+name+" | tail -n 1 | grep -q loop && echo hello >/data/"+name+"/file; sync; sleep 100000", nil, name)
	l.killIn(name, "validation")
	l.killIn(name, "validation", "creation")
	l.killIn(name, "validation", "creation", "staging")
	l.WaitPod("writes", "running", running)
	l.kill()
	l.remove("writes")
	l.killIn(name, "validation", "creation", "staging", "unstaging")
	volume := l.WaitPVC(name, "bound", func(p *corev1.PersistentVolumeClaim) bool { return p.Status.Phase == corev1.ClaimBound }).Spec.VolumeName
	l.unstagedHere(l.Namespace, volume)
	return volume
}

// unstagedHere waits until the node does not have the volume.
func (l *loopFiles) unstagedHere(provisioner, volume string) {
	l.T.Helper()
	l.WaitGone("pavstaging/" + stowage.PavStagingName(provisioner, volume, l.node.Name))
}

// stacked makes an encrypted volume on another one, and deletes it. Parts are killed meanwhile.
func (l *loopFiles) stacked(underlying string) {
	l.T.Helper()
	name := underlying + "-stacked"
	claim := blockClaim(l.Env, name, l.Name("luks"))
	claim.Annotations = map[string]string{"underlying": underlying, "secret": "key"}
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("16Mi")
	l.Create(claim)
	l.kill()
	volume := l.WaitPVC(name, "bound", func(p *corev1.PersistentVolumeClaim) bool { return p.Status.Phase == corev1.ClaimBound }).Spec.VolumeName
	device := func(p *corev1.Pod) { withDevice(p, name) }
	l.pod("writes", l.node.Name, "echo secret | dd of=/dev/"+name+" conv=fsync", device)
	l.kill()
	l.logs("writes")
	l.remove("writes")
	l.kill()
	l.unstagedHere(l.Name("luks"), volume)
	l.pod("reads", l.node.Name, "head -n 1 /dev/"+name, device)
	if diff := cmp.Diff("secret\n", l.logs("reads")); diff != "" {
		l.T.Errorf("the stacked volume (-want +got):\n%s", diff)
	}
	l.remove("reads")
	l.Kubectl("delete", "pvc/"+name)
	l.kill()
	l.WaitGone("pv/" + volume)
}

// deleted checks that a claim still has its data, and deletes it with a kill in the deletion.
func (l *loopFiles) deleted(name, volume string) {
	l.T.Helper()
	l.pod("checks", l.node.Name, "cat /data/"+name+"/file", nil, name)
	if diff := cmp.Diff("hello\n", l.logs("checks")); diff != "" {
		l.T.Errorf("the volume in a file (-want +got):\n%s", diff)
	}
	l.remove("checks")
	l.unstagedHere(l.Namespace, volume)
	l.on(l.node.Name, `rm /var/lib/loop-files/"$1".log`, name)
	l.hold("deletion")
	l.Kubectl("delete", "pvc/"+name)
	l.killIn(name, "deletion")
	l.WaitGone("pv/" + volume)
	l.WaitGone("pavvolume/" + volume)
	l.logged(name, "deletion")
}
