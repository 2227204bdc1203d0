// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// TestReporter: kubelet runs helper pods with their reporter, and the outcome that is read from
// their status is right. TestPav disrupts such pods.
func TestReporter(t *testing.T) {
	e := frame.New(t)
	node := e.AddNodes(frame.Node("a"))[0]
	archives, err := install.Archives([]string{"pav-reporter"})
	e.Do(err)
	e.Do(node.Import(e.Context, archives...))
	const folder = "/var/lib/stowage/pav"
	_, err = node.Run(e.Context, nil, "mkdir", "-p", folder)
	e.Do(err)
	staging := func(c *helperpod.Config) {
		c.Step, c.Node = helperpod.Staging, node.Name
		c.Volume = &helperpod.Volume{HostPath: folder, Mode: corev1.PersistentVolumeFilesystem}
	}
	// gate waits until the process that opens it has ended: the container would take a process that
	// runs with it, and the test would have that one's exit code. The first of the two creates the FIFO.
	const gate = "; mkfifo /pav/gate 2>/dev/null; cat </pav/gate"
	open := func(e *frame.Env, pod *corev1.Pod) {
		e.Exec(pod.Name, "sh", "-c", "mkfifo /pav/gate 2>/dev/null; exec >/pav/gate")
	}
	for i, test := range []struct {
		name   string
		script string
		change func(*helperpod.Config)
		ready  func(*corev1.Pod) bool        // when act is called, if it is set
		act    func(*frame.Env, *corev1.Pod) // what happens meanwhile
		want   helperpod.Outcome
	}{
		{
			name: "succeeds", script: "echo bucket >/pav/handle; echo 10Gi >/pav/capacity; echo note >/pav/error",
			want: helperpod.Outcome{State: helperpod.Succeeded, Report: &report.Report{Handle: new("bucket"), Capacity: new("10Gi"), Error: "note"}},
		},
		{
			name: "fails", script: "echo no space >/pav/error; touch /pav/reschedule; exit 3",
			want: helperpod.Outcome{
				State: helperpod.Failed, Report: &report.Report{Error: "no space", Reschedule: true},
				Message: "container shell ended with exit code 3 (Error): no space",
			},
		},
		{
			name: "stages", script: "mkdir /pav/volume; touch /pav/ready" + gate, change: staging, ready: frame.Ready, act: open,
			want: helperpod.Outcome{State: helperpod.Succeeded, Report: &report.Report{Volume: report.Volume{Kind: report.Directory}}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := helper(e, test.script, int64(i+1), test.change)
			e.Create(pod)
			if test.act != nil {
				test.act(e, e.WaitPod(pod.Name, "at work", test.ready))
			}
			done := e.WaitPod(pod.Name, "ended", func(p *corev1.Pod) bool { return helperpod.OutcomeOf(p).State != helperpod.Running })
			// Which numbers the node's file systems have is unknown.
			numbers := cmpopts.IgnoreFields(report.Volume{}, "FileSystem", "Inode")
			got := helperpod.OutcomeOf(done)
			if diff := cmp.Diff(test.want, got, numbers); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Report != nil && (got.Report.Volume.Kind != "") != (got.Report.Volume.Inode != 0) {
				t.Errorf("the volume is not identified: %+v", got.Report.Volume)
			}
			_, err := e.Client.CoreV1().Pods(pod.Namespace).Patch(e.Context, pod.Name, types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			e.Do(err)
		})
	}
}

// helper is a helper pod that runs a script in container shell on node a. The namespace owns it.
func helper(e *frame.Env, script string, attempt int64, change func(*helperpod.Config)) *corev1.Pod {
	e.T.Helper()
	namespace, err := e.Client.CoreV1().Namespaces().Get(e.Context, e.Namespace, metav1.GetOptions{})
	e.Do(err)
	c := helperpod.Config{
		Step: helperpod.Creation, Provisioner: "test", Attempt: attempt, Image: "stowage.dev/stowage-pav-reporter:dev", Namespace: e.Namespace,
		Owner: metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID},
	}
	if change != nil {
		change(&c)
	}
	template := &corev1.PodTemplateSpec{Spec: e.OnNode(e.Shell("template", script), "a").Spec}
	template.Spec.TerminationGracePeriodSeconds = nil
	pod, errs := helperpod.Build(template, c)
	e.Do(errs.ToAggregate())
	return pod
}

// running reports whether all containers of a helper pod run.
func running(p *corev1.Pod) bool {
	s := p.Status.ContainerStatuses
	return len(s) == 1 && s[0].State.Running != nil
}

// killReporter kills the reporter of a helper pod, and returns when kubelet has started it again.
func killReporter(e *frame.Env, pod *corev1.Pod) {
	e.T.Helper()
	before := pod.Status.InitContainerStatuses[0].ContainerID
	_, err := e.Cluster.Node(pod.Spec.NodeName).Run(e.Context, nil, "sh", "-c", ctr+"kill --signal SIGKILL $1", "sh", strings.TrimPrefix(before, "containerd://"))
	e.Do(err)
	frame.Wait(e, e.Client.CoreV1().Pods(pod.Namespace), pod.Name, "with its reporter again", func(p *corev1.Pod) bool {
		s := p.Status.InitContainerStatuses[0]
		return s.State.Running != nil && s.ContainerID != before
	})
}
