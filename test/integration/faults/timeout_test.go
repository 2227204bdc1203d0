// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// silent is the name of a provisioner that does not run.
const silent = "stowage.dev/silent"

// TestBindTimeout: a provisioner does not provision.
func TestBindTimeout(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]func(*scenario){"a provisioner that never answers": bindTimeout})
}

// bindTimeout: a pod with a claim that an existing volume can serve and one
// that waits for a provisioner. The pod's condition names the waiting claim, the
// pod is retried, and the existing volume is not lost. In the end the
// provisioner answers. Only the attempts that must time out have a
// short timeout: the others depend on the speed of the machine.
func bindTimeout(s *scenario) {
	s.Timeout = waitTimeout
	s.before = func() {
		s.AddNodes(s.Node("a"))
		s.CreatePVs(s.LocalPV("existing", "a"))
		s.CreateClass(s.Class("made").Provisioner(silent))
		s.CreatePVC(s.PVC("static"))
		s.CreatePVC(s.PVC("dynamic").Class(s.Name("made")))
	}
	ordinary := s.profile.Args
	var pod *v1.Pod
	s.during = func() {
		s.profile.Args = withTimeout(ordinary)
		hasty, _ := s.start()
		pod = s.CreatePod(s.Pod("pod").PVC("static", "dynamic"))
		s.WaitPod(pod, "refused because no provisioner answers in time", func(p *v1.Pod) bool {
			text := message(p)
			return strings.Contains(text, "not bound within 1s") && strings.Contains(text, s.Namespace+"/dynamic\" waits for") &&
				strings.Contains(text, s.Name("a"))
		})
		s.WaitAttempt(hasty, pod, hasty.Attempts(pod)+1)
		s.profile.Args = ordinary
		s.start()
		if node := s.SeenPVC("dynamic").Annotations[plan.AnnSelectedNode]; node != s.Name("a") {
			s.T.Errorf("selected-node is %q: the provisioner may have begun on %s", node, s.Name("a"))
		}
		if !s.alone {
			return
		}
		s.DeletePod(pod)
		s.wantFree("existing")
		next := s.CreatePod(s.Pod("next").PVC("static"))
		wantSettled(s.Env, next)
		s.DeletePod(next)
	}
	s.after = func() {
		if s.alone {
			s.start()
			pod = s.CreatePod(s.Pod("pod").PVC("static", "dynamic"))
		}
		claim := s.SeenPVC("dynamic")
		s.CreatePVs(s.LocalPV("made", "a").Class(s.Name("made")).ProvisionedBy(silent).
			ClaimRef(s.Namespace, claim.Name, string(claim.UID)))
		wantSettled(s.Env, pod)
	}
}

// withTimeout sets the shortest valid timeout.
func withTimeout(args *configv1.VolumeTopologyArgs) *configv1.VolumeTopologyArgs {
	if args == nil {
		args = &configv1.VolumeTopologyArgs{}
	}
	args = args.DeepCopy()
	second := int64(1)
	args.BindTimeoutSeconds = &second
	return args
}

// message is the condition of the last attempt that failed.
func message(pod *v1.Pod) string {
	i := slices.IndexFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse
	})
	if i < 0 {
		return ""
	}
	return pod.Status.Conditions[i].Message
}
