// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// TestPav: volumes of a PavProvisioner are created and deleted on a real kubelet. One after the other:
// the second test kills the controller of the first.
func TestPav(t *testing.T) {
	pavSite.Parallel(t)
	t.Run("disrupted", testPavDisrupted)
	t.Run("restarts", testPavRestarts)
}

// testPavDisrupted: the first creation pod and the first deletion pod of each claim are disrupted.
// What a failed creation left is deleted before it is repeated, and nothing is left in the end.
func testPavDisrupted(t *testing.T) {
	s := newPav(t)
	const deleted = "the pod was deleted before its containers ended"
	image := "stowage.test/" + s.Namespace + ":1"
	claims := []*pavClaim{
		{title: "undisturbed", created: "made", deleted: "deleted"},
		{
			title: "deleted before it is scheduled", message: deleted, created: "nothing made", deleted: "deleted",
			annotations: map[string]string{"selector": fmt.Sprintf(`{%q: "yes"}`, s.Namespace)},
			prepare:     func(s *pav) { s.label(nil) },
			disrupt: func(s *pav, c *pavClaim, pod *corev1.Pod) {
				s.WaitEvent(c.in, c.subject, string(rules.PodNotRunning), "is not scheduled")
				deleteHelper(s, c, pod)
				s.label("yes")
			},
		},
		{
			title: "deleted while its image is missing", message: deleted, created: "nothing made", deleted: "deleted",
			annotations: map[string]string{"image": image},
			prepare:     func(s *pav) { s.run(ctrImages+`remove --sync "$1"`, image) },
			disrupt: func(s *pav, c *pavClaim, pod *corev1.Pod) {
				s.WaitEvent(c.in, c.subject, string(rules.PodNotRunning), "ErrImageNeverPull")
				deleteHelper(s, c, pod)
				s.run(ctrImages+`tag "$1" "$2"`, realnode.BusyboxImage, image)
			},
		},
		{title: "deleted in its init container", point: "init", disrupt: deleteHelper, message: deleted, created: "nothing made", deleted: "deleted"},
		{title: "deleted before it does something", point: "begin", disrupt: deleteHelper, message: deleted, created: "nothing made", deleted: "deleted"},
		{title: "deleted when it is done", point: "end", disrupt: deleteHelper, message: deleted, created: "made deleted made", deleted: "deleted nothing"},
		{
			title: "deleted by force", point: "end", message: deleted, created: "made deleted made", deleted: "deleted nothing",
			disrupt: func(s *pav, _ *pavClaim, pod *corev1.Pod) {
				s.Do(s.Client.CoreV1().Pods(pod.Namespace).Delete(s.Context, pod.Name, *metav1.NewDeleteOptions(0)))
			},
		},
		{
			title: "evicted", point: "end", message: "EvictionByEvictionAPI", created: "made deleted made", deleted: "deleted nothing",
			disrupt: func(s *pav, _ *pavClaim, pod *corev1.Pod) {
				s.Do(s.Client.PolicyV1().Evictions(pod.Namespace).Evict(s.Context, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}))
			},
		},
		{
			title: "killed", point: "end", message: "container main ended with exit code 137", created: "made deleted made", deleted: "deleted nothing",
			disrupt: func(s *pav, _ *pavClaim, pod *corev1.Pod) { s.signal("SIGKILL", pod.Status.ContainerStatuses[0]) },
		},
		{title: "reporter killed before the main container runs", point: "init", disrupt: restartReporter, created: "made", deleted: "deleted"},
		{title: "reporter killed while the main container runs", point: "end", disrupt: restartReporter, created: "made", deleted: "deleted"},
		{
			title: "reporter killed after the main container ended", point: "end", message: "the reporter left no report",
			created: "made deleted made", deleted: "deleted nothing",
			disrupt: func(s *pav, c *pavClaim, pod *corev1.Pod) {
				// A stopped process does not handle the SIGTERM that follows the end of the main container.
				s.signal("SIGSTOP", pod.Status.InitContainerStatuses[0])
				s.proceed(c)
				s.waitHelper(pod.Name, "done", func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].State.Terminated != nil })
				s.signal("SIGKILL", pod.Status.InitContainerStatuses[0])
			},
		},
	}
	s.run(ctrImages+`tag "$1" "$2"`, realnode.BusyboxImage, image)
	s.create(claims)
	s.disrupt(claims, helperpod.Creation)
	s.waitCreated(claims)
	s.remove(claims)
	s.disrupt(claims, helperpod.Deletion)
	s.waitRemoved(claims)
}

// deleteHelper deletes a helper pod as users do.
func deleteHelper(s *pav, _ *pavClaim, pod *corev1.Pod) {
	s.T.Helper()
	s.Do(s.Client.CoreV1().Pods(pod.Namespace).Delete(s.Context, pod.Name, metav1.DeleteOptions{}))
}

// restartReporter kills the reporter of a helper pod, and lets the pod continue when kubelet has started
// the reporter again.
func restartReporter(s *pav, c *pavClaim, pod *corev1.Pod) {
	s.T.Helper()
	killReporter(s.Env, pod)
	s.proceed(c)
}

// testPavRestarts: the controller and kubelet are killed while helper pods run, and then no controller
// runs when these end. The results are kept until the next controller records them.
func testPavRestarts(t *testing.T) {
	s := newPav(t)
	claims := []*pavClaim{
		{title: "in its init container", point: "init", created: "made", deleted: "deleted"},
		{title: "before it does something", point: "begin", created: "made", deleted: "deleted"},
		{title: "when it is done", point: "end", created: "made", deleted: "deleted"},
		{
			title: "deleted after its end", point: "end", disrupt: deleteHelper,
			message: "the pod was deleted before its containers ended", created: "made deleted made", deleted: "deleted nothing",
		},
	}
	outage := func(step helperpod.Step) {
		var pods []*corev1.Pod
		for _, c := range claims {
			pods = append(pods, s.reached(c, step))
		}
		crash(s.Env, leader(s.Env, install.Namespace, "stowage-controller"))
		restart(s.Env, s.Cluster.Node(pavNode).Kubelet())
		s.scaleController(0)
		for _, c := range claims {
			s.proceed(c)
		}
		for i, c := range claims {
			s.waitHelper(pods[i].Name, "ended", frame.Succeeded)
			if c.disrupt != nil {
				c.disrupt(s, c, pods[i])
			}
		}
		s.scaleController(2)
	}
	s.create(claims)
	outage(helperpod.Creation)
	s.waitCreated(claims)
	s.remove(claims)
	outage(helperpod.Deletion)
	s.waitRemoved(claims)
}

// scaleController sets the number of controllers, and returns when they run.
func (s *pav) scaleController(replicas int) {
	s.T.Helper()
	kubectl := func(args ...string) { s.Kubectl(append([]string{"--namespace=" + install.Namespace}, args...)...) }
	kubectl("scale", "deployment/stowage-controller", fmt.Sprintf("--replicas=%d", replicas))
	if replicas == 0 {
		kubectl("wait", "--for=delete", "--timeout=-1s", "pod", "--selector=app.kubernetes.io/name=stowage-controller")
	}
	kubectl("rollout", "status", "deployment/stowage-controller")
}
