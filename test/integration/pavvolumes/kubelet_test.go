// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
)

// nodeName is the node of all helper pods that are not for another one.
const nodeName = "kubelet"

// program is what the helper pods of a provisioner do. claim is the argument of their first
// container, empty without one; number counts the pods of the step of a volume. Pods with a nil
// outcome stay as they are.
type program func(claim string, step helperpod.Step, number int) outcome

// outcome changes a pod to the state that kubelet reports. It may have been deleted before.
type outcome func(*corev1.Pod)

// exit is the outcome of a pod whose main containers end on their own, with what they leave in /pav.
func exit(r report.Report, code int32) outcome {
	return func(pod *corev1.Pod) {
		message, err := report.Encode(r, report.Limit(len(pod.Spec.InitContainers)+len(pod.Spec.Containers)))
		if err != nil {
			panic(err)
		}
		leave(message, code)(pod)
	}
}

// leave is the outcome of a pod whose reporter leaves a termination message.
func leave(message string, code int32) outcome {
	ended := func(name, message string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, StartedAt: metav1.Now(), FinishedAt: metav1.Now(), Message: message,
		}}}
	}
	return func(pod *corev1.Pod) {
		if pod.Status.Phase = corev1.PodSucceeded; code != 0 {
			pod.Status.Phase = corev1.PodFailed
		}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{ended(helperpod.ReporterName, message, 0)}
		pod.Status.ContainerStatuses = nil
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, ended(c.Name, "", code))
		}
	}
}

// runs is the outcome of a pod that runs until it is deleted. It exits with 0 on SIGTERM.
func runs(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		})
	}
}

// ready is the outcome of a pod that runs, and has made its volume available.
func ready(pod *corev1.Pod) {
	runs(pod)
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

// nodeOf returns the node that a pod may run on.
func nodeOf(pod *corev1.Pod) string {
	if a := pod.Spec.Affinity; a != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
	}
	return nodeName
}

// waits is the outcome of a pod whose main container does not start.
func waits(reason, message string) outcome {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}
	}
}

// programs are those of the tests' provisioners, by name.
var programs sync.Map

// kubelet runs the helper pods of a provisioner that has a program, in the order of their events.
type kubelet struct {
	client kubernetes.Interface
	counts map[string]int // pods by volume and step
	seen   map[types.UID]bool
}

// runKubelets runs the helper pods of each provisioner until ctx ends. A program that waits delays no
// other provisioner's pods.
func runKubelets(ctx context.Context, client kubernetes.Interface) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	queues := map[string]chan *corev1.Pod{}
	defer func() {
		for _, queue := range queues {
			close(queue)
		}
	}()
	enqueue := func(pod *corev1.Pod) {
		provisioner := pod.Labels[wellknown.PavProvisionerLabel]
		queue := queues[provisioner]
		if queue == nil {
			queue = make(chan *corev1.Pod, 10000) // more than the pods of a test have events
			queues[provisioner] = queue
			k := &kubelet{client: client, counts: map[string]int{}, seen: map[types.UID]bool{}}
			workers.Go(func() { k.run(ctx, queue) })
		}
		queue <- pod
	}
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	selected := func(o metav1.ListOptions) metav1.ListOptions { o.LabelSelector = wellknown.PavOwnerLabel; return o }
	_, err := watchtools.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, selected(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, selected(o))
		},
	}, &corev1.Pod{}, nil, func(e watch.Event) (bool, error) {
		if pod, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Deleted {
			enqueue(pod)
		}
		return false, nil
	})
	return err
}

func (k *kubelet) run(ctx context.Context, pods <-chan *corev1.Pod) {
	for pod := range pods {
		err := k.sync(ctx, pod.DeepCopy())
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the next event has the pod as it is
			continue
		}
		logEarly(ctx, err)
	}
}

// sync starts a pod, or terminates one that is being deleted.
func (k *kubelet) sync(ctx context.Context, pod *corev1.Pod) error {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case ended, pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil:
		return nil
	case pod.DeletionTimestamp != nil:
		return k.terminate(ctx, pod)
	case k.seen[pod.UID]:
		return nil
	}
	k.seen[pod.UID] = true
	found, ok := programs.Load(pod.Labels[wellknown.PavProvisionerLabel])
	if !ok {
		return nil
	}
	step := pod.Labels[wellknown.PavStepLabel]
	of := pod.Labels[wellknown.PavOwnerLabel] + step
	k.counts[of]++
	claim := ""
	if args := pod.Spec.Containers[0].Args; len(args) > 0 {
		claim = args[0]
	}
	do := found.(program)(claim, helperpod.Step(step), k.counts[of])
	if do == nil {
		return nil
	}
	do(pod)
	pods := k.client.CoreV1().Pods(pod.Namespace)
	if _, condition := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled); condition != nil && condition.Status == corev1.ConditionFalse {
		_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	}
	err := pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeOf(pod)},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.ResourceVersion = "" // Bind changed it
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// terminate ends the containers of a pod with exit code 0.
func (k *kubelet) terminate(ctx context.Context, pod *corev1.Pod) error {
	exit(report.Report{Handle: new("terminated"), Capacity: new("1Gi")}, 0)(pod)
	pods := k.client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
}
