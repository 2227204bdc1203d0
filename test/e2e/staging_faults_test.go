// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// testStagingFails: what a staging pod reports is in the events of the pod that waits, and kubelet's
// eviction of a staging pod, too.
func testStagingFails(t *testing.T) {
	for row, tc := range map[string]struct{ script, message string }{
		"reports an error": {`echo "no such export" >/pav/error; exit 1`, "no such export"},
		"is evicted":       {"dd if=/dev/zero of=/scratch/file bs=1M count=8; sleep 1000", "Evicted"},
	} {
		t.Run(row, func(t *testing.T) {
			s := newStaging(t, "if [ ! -e /store/$HANDLE ]; then touch /store/$HANDLE; "+tc.script+"; fi; mkdir /pav/volume", "true",
				"volumeMounts: &mounts\n", "volumeMounts: &mounts\n          - {name: scratch, mountPath: /scratch}\n",
				"volumes: &volumes\n", "volumes: &volumes\n        - {name: scratch, emptyDir: {sizeLimit: 1Mi}}\n")
			volume := s.claim("c", nil)
			s.pod("waits", stagingOne, "true", nil, "c")
			s.WaitEvent(s.Namespace, "waits", "FailedMount", tc.message)
			s.logs("waits")
			s.remove("waits")
			s.unstaged(volume)
		})
	}
}

// testStagingSlow: a staging pod may take longer than kubelet waits for NodeStageVolume, which is two
// minutes.
func testStagingSlow(t *testing.T) {
	s := newStaging(t, "sleep 125; mkdir /pav/volume", "true")
	volume := s.claim("c", nil)
	s.pod("waits", stagingOne, "true", nil, "c")
	s.WaitEvent(s.Namespace, "waits", "FailedMount", "volume "+volume+" is staging")
	s.logs("waits")
	s.remove("waits")
	s.unstaged(volume)
}

// testStagingShared: a node that cannot stage a volume does not disturb those that have it.
func testStagingShared(t *testing.T) {
	s := newStaging(t, `mkdir -p /store/$HANDLE /pav/volume; [ $NODE = `+stagingOne+` ] || [ -e /store/repaired ] || { echo "no route to the server" >/pav/error; exit 1; }; mount --bind /store/$HANDLE /pav/volume`, "true",
		`          - {name: HANDLE, value: "{{ handle }}"}`+"\n", `          - {name: HANDLE, value: "{{ handle }}"}`+"\n"+`          - {name: NODE, value: "{{ node.metadata.name }}"}`+"\n",
		"path: /var/lib/stowage/store,", `path: "/var/lib/stowage/store-of-{{ pv.metadata.name }}",`)
	volume := s.claim("c", readWriteMany)
	s.pod("has", stagingOne, "while true; do date >>/data/c/file; sleep 0.1; done", nil, "c")
	s.WaitPod("has", "running", running)
	s.pod("waits", stagingTwo, "ls /data/c", nil, "c")
	s.WaitEvent(s.Namespace, "waits", "FailedMount", "no route to the server")
	if pod := s.WaitPod("has", "there", func(*corev1.Pod) bool { return true }); !running(pod) || pod.Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the pod on the other node has the status %+v", pod.Status)
	}
	s.on(stagingTwo, `touch /var/lib/stowage/store-of-"$1"/repaired`, volume)
	s.logs("waits")
	s.remove("has", "waits")
	s.unstaged(volume)
}

// gated is a pair of scripts that log what they do, and continue when a file exists. The staging pod runs
// for as long as the volume is staged.
const (
	gatedStage = `echo staging >>/store/$HANDLE.log; until [ -e /store/$HANDLE.stage ]; do sleep 0.1; done
mkdir -p /store/$HANDLE /pav/volume; mount --bind /store/$HANDLE /pav/volume; echo staged >>/store/$HANDLE.log; touch /pav/ready; trap 'exit 0' TERM; sleep 100000 & wait $!`
	gatedUnstage = `echo unstaging >>/store/$HANDLE.log; until [ -e /store/$HANDLE.unstage ]; do sleep 0.1; done; echo unstaged >>/store/$HANDLE.log`
)

// testStagingKilled: kubelet, containerd, the controller and the node service are killed while the staging
// pod runs, while a pod uses the volume, and while the unstaging pod runs. Each pod runs once.
func testStagingKilled(t *testing.T) {
	s := newStagingWith(restartsSite.New(t))
	s.provideScripts(gatedStage, gatedUnstage)
	node := s.node()
	volume := s.claim("c", nil)
	killAll := func() {
		restart(s.Env, node.Kubelet())
		restart(s.Env, node.Containerd())
		crash(s.Env, leader(s.Env, install.Namespace, "stowage-controller"))
		crash(s.Env, s.service(node.Name))
	}
	logged := func(want string) {
		t.Helper()
		s.on(node.Name, `until [ "$(cat /var/lib/stowage/store/"$1".log)" = "$2" ]; do sleep 0.1; done`, volume, want)
	}
	s.pod("uses", node.Name, "echo hello >/data/c/file; sleep 100000", nil, "c")
	s.on(node.Name, `until [ -e /var/lib/stowage/store/"$1".log ]; do sleep 0.1; done`, volume)
	killAll()
	s.on(node.Name, `touch /var/lib/stowage/store/"$1".stage`, volume)
	s.WaitPod("uses", "running", running)
	killAll()
	if got := s.Exec("uses", "cat", "/data/c/file"); got != "hello\n" {
		t.Errorf("the pod reads %q", got)
	}
	if pod := s.WaitPod("uses", "running", running); pod.Status.ContainerStatuses[0].RestartCount > 0 {
		t.Error("the pod that uses the volume was restarted")
	}
	s.remove("uses")
	logged("staging\nstaged\nunstaging")
	killAll()
	s.on(node.Name, `touch /var/lib/stowage/store/"$1".unstage`, volume)
	s.WaitGone("pavstaging/" + stowage.PavStagingName(s.Namespace, volume, node.Name))
	logged("staging\nstaged\nunstaging\nunstaged")
	s.empty(node.Name, volume)
}

// testStagingReplaced: the node service and the controller are updated while a volume is staged.
func testStagingReplaced(t *testing.T) {
	s := newStagingWith(restartsSite.New(t))
	s.provideScripts(boundStore, "sleep 3")
	volume := s.claim("c", nil)
	s.pod("uses", stagingOne, "echo hello >/data/c/file; until [ -e /data/c/end ]; do sleep 0.2; done; cat /data/c/file", nil, "c")
	s.WaitPod("uses", "running", running)
	update := func() {
		for _, workload := range []string{"daemonset/stowage-csi", "deployment/stowage-controller"} {
			s.Kubectl("rollout", "restart", "--namespace="+install.Namespace, workload)
			s.Kubectl("rollout", "status", "--namespace="+install.Namespace, workload)
		}
	}
	update()
	s.Kubectl("exec", "uses", "--", "touch", "/data/c/end")
	s.logs("uses")
	s.pod("again", stagingOne, "cat /data/c/file", nil, "c")
	s.logs("again")
	s.Kubectl("delete", "pod", "--wait=false", "uses", "again")
	update()
	s.unstaged(volume)
}

// testStagingHangs: the server of a file system that hangs holds up neither other volumes of the node nor
// the end of its own.
func testStagingHangs(t *testing.T) {
	s := newStaging(t, served, "true")
	volume := s.claim("c", nil)
	s.pod("hangs", stagingOne, "sleep 100000", nil, "c")
	s.WaitPod("hangs", "running", running)
	s.on(stagingOne, `pkill -STOP -f "fsname=store /store/$1"`, volume)
	t.Cleanup(func() { // of a failed test
		if t.Failed() {
			s.on(stagingOne, `pkill -KILL -f "fsname=store /store/$1" || true`, volume)
		}
	})
	waits := s.Shell("waits", "true", "c") // kubelet, and the node service, wait for the file system
	waits.Spec.NodeSelector = map[string]string{corev1.LabelHostname: stagingOne}
	s.Create(waits)
	other := s.claim("other", nil)
	s.pod("works", stagingOne, "echo hello >/data/other/file; cat /data/other/file", nil, "other")
	s.logs("works")
	s.remove("works")
	s.unstaged(other)
	s.WaitEvent(s.Namespace, "waits", "FailedMount", "does not respond")
	s.remove("hangs", "waits")
	s.unstaged(volume)
}

// testStagingUnreachable: pods are taken from a node that is not reachable, but its volume stays there until
// kubelet has unstaged it.
func testStagingUnreachable(t *testing.T) {
	s := newStaging(t, boundStore, "true")
	node := s.node()
	volume := s.claim("c", nil)
	s.pod("first", node.Name, "sleep 10000", func(p *corev1.Pod) {
		for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(1)),
			})
		}
	}, "c")
	s.WaitPod("first", "running", running)
	s.Do(node.Kubelet().Kill())
	s.WaitPod("first", "deleted by the node controller", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	s.pod("second", stagingOne, "true", nil, "c")
	s.waitsFor(volume, node.Name)
	s.Kubectl("delete", "pod", "first", "--force", "--grace-period=0") // nothing shows that it ended
	s.WaitEvent(s.Namespace, "second", "FailedMount", "is staged on node "+node.Name)
	s.Do(node.Kubelet().Start(s.Context))
	s.logs("second")
	s.remove("second")
	s.unstaged(volume)
	s.empty(node.Name, volume)
}

// testStagingRegisteredAgain: the Node of a machine is deleted while containers of the machine run. When it is
// registered again, nothing is left, and it can have the volume again.
func testStagingRegisteredAgain(t *testing.T) {
	s := newStaging(t, served, "true")
	node := s.node()
	volume := s.claim("c", nil)
	s.pod("first", node.Name, "echo hello >/data/c/file; sleep 100000", nil, "c")
	s.WaitPod("first", "running", running)
	s.Do(node.Kubelet().Kill())
	s.Kubectl("delete", "node", node.Name)
	s.WaitEvent(s.Namespace, "c", string(rules.Abandoned), "does not exist")
	s.WaitGone("pavstaging/" + stowage.PavStagingName(s.Namespace, volume, node.Name))
	s.WaitGone("pod/first")
	s.Do(node.Kubelet().Start(s.Context))
	s.registered(node.Name, s.Namespace)
	s.pod("second", node.Name, "cat /data/c/file", nil, "c")
	if got := s.logs("second"); got != "hello\n" {
		t.Errorf("the volume has %q", got)
	}
	s.remove("second")
	s.WaitGone("pavstaging/" + stowage.PavStagingName(s.Namespace, volume, node.Name))
	s.empty(node.Name, volume)
}

// testStagingDeleted: the PavStaging of a volume that a pod uses is deleted, and its finalizer removed. The
// pod has the volume until it ends, and nothing is left then.
func testStagingDeleted(t *testing.T) {
	for row, patch := range map[string]string{
		"deleted":               "",
		"its finalizer removed": `--patch={"metadata":{"finalizers":null}}`,
	} {
		t.Run(row, func(t *testing.T) {
			s := newStaging(t, boundStore, "true")
			volume := s.claim("c", nil)
			s.pod("uses", stagingOne, "echo hello >/data/c/file; sleep 100000", nil, "c")
			s.WaitPod("uses", "running", running)
			name := stowage.PavStagingName(s.Namespace, volume, stagingOne)
			s.Kubectl("delete", "pavstaging", name, "--wait=false")
			if patch != "" {
				s.Kubectl("patch", "pavstaging", name, "--type=merge", patch)
				s.WaitGone("pavstaging/" + name)
			}
			s.pod("waits", stagingOne, "cat /data/c/file", nil, "c")
			s.WaitEvent(s.Namespace, "waits", "FailedMount", "")
			if got := s.Exec("uses", "cat", "/data/c/file"); got != "hello\n" {
				t.Errorf("the pod that has the volume reads %q", got)
			}
			s.remove("uses")
			if got := s.logs("waits"); got != "hello\n" {
				t.Errorf("the next pod reads %q", got)
			}
			s.remove("waits")
			s.unstaged(volume)
		})
	}
}

// testStagingStuck: a volume whose unstaging pod fails stays on its node until an administrator ends it.
func testStagingStuck(t *testing.T) {
	s := newStaging(t, boundStore, `echo "the server does not answer" >/pav/error; exit 1`)
	volume := s.claim("c", nil)
	s.pod("first", stagingOne, "true", nil, "c")
	s.logs("first")
	s.remove("first")
	s.WaitEvent(s.Namespace, "c", string(rules.UnstagingFailed), "the server does not answer")
	s.pod("second", stagingTwo, "true", nil, "c")
	s.waitsFor(volume, stagingOne)
	frame.Wait(s.Env, s.clients.Stagings, stowage.PavStagingName(s.Namespace, volume, stagingOne), "unstaged several times", func(p *stowage.PavStaging) bool {
		return p.Status.UnstagingFailures > 2
	})
	s.Kubectl("annotate", "pavstaging", stowage.PavStagingName(s.Namespace, volume, stagingOne), "stowage.dev/pav-unstaged=true")
	s.logs("second")
	s.remove("second")
	s.Kubectl("annotate", "pavstaging", stowage.PavStagingName(s.Namespace, volume, stagingTwo), "stowage.dev/pav-unstaged=true")
	s.unstaged(volume)
}

// testStagingNoService: a node without the node service has no driver, which kubelet says of the pod.
func testStagingNoService(t *testing.T) {
	s := newStaging(t, boundStore, "true")
	spec := frame.Node("n")
	spec.Labels = map[string]string{withoutService: "true"}
	node := s.AddNodes(spec)[0]
	volume := s.claim("c", nil)
	s.pod("waits", node.Name, "true", nil, "c")
	s.WaitEvent(s.Namespace, "waits", "FailedMount", "driver name "+s.Namespace+" not found in the list of registered CSI drivers")
	s.Kubectl("label", "node", node.Name, withoutService+"-")
	s.logs("waits")
	s.remove("waits")
	s.WaitGone("pavstaging/" + stowage.PavStagingName(s.Namespace, volume, node.Name))
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
		return p.Status.Phase == stowage.PavStagingStaged && p.Status.StagedAttempt > 1 && p.Spec.BootID == p.Status.BootID && !strings.Contains(p.Spec.BootID, "/")
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
	s.waitsFor(volume, node.Name)
	s.Kubectl("taint", "node", node.Name, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	s.WaitEvent(s.Namespace, "c", string(rules.Abandoned), "out-of-service")
	s.logs("second")
	s.remove("second")
}
