// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/node"
	"stowage.dev/stowage/test/provisioners"
)

// kubelet runs the pods of a node's cleaning Jobs as processes of this machine.
type kubelet struct {
	t *testing.T
	n *node.Node
	// started receives each pod's process.
	started chan *cluster.Process

	ctx   context.Context
	group sync.WaitGroup
	mu    sync.Mutex
	pods  map[types.UID]*cluster.Process
	// sys, if set, is what containers have as /sys.
	sys string
	// waiting, if set, is the reason why no container of a new pod starts.
	waiting string
}

// startKubelet runs until the end of the test.
func startKubelet(t *testing.T, n *node.Node) *kubelet {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.Env.Context()))
	k := &kubelet{t: t, n: n, ctx: ctx, started: make(chan *cluster.Process, 100), pods: map[types.UID]*cluster.Process{}}
	factory := informers.NewSharedInformerFactoryWithOptions(n.Env.Client, 0, informers.WithNamespace(provisioners.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector, o.FieldSelector = wellknown.CleaningLabel, "spec.nodeName="+n.Name
		}))
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.observe(o) },
		UpdateFunc: func(_, o any) { k.observe(o) },
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		k.mu.Lock()
		for _, process := range k.pods {
			if process != nil {
				_ = process.Kill()
			}
		}
		k.mu.Unlock()
		cancel()
		factory.Shutdown()
		k.group.Wait()
	})
	return k
}

// observe handles a change of a pod.
func (k *kubelet) observe(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	process, known := k.pods[pod.UID]
	switch {
	case pod.DeletionTimestamp != nil && process != nil:
		_ = process.Signal(syscall.SIGTERM)
	case pod.DeletionTimestamp != nil:
		k.group.Go(func() { k.remove(pod) })
	case known || pod.Status.Phase != corev1.PodPending:
	case k.waiting != "":
		k.pods[pod.UID] = nil
		state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: k.waiting, Message: "as the test has it"}}
		k.group.Go(func() { k.status(pod, corev1.PodPending, state) })
	default:
		process := k.run(pod)
		k.pods[pod.UID] = process
		k.group.Go(func() { k.follow(pod, process) })
	}
}

// run starts a pod's container.
func (k *kubelet) run(pod *corev1.Pod) *cluster.Process {
	var args []string
	for _, arg := range pod.Spec.Containers[0].Args {
		arg = strings.ReplaceAll(arg, "$$", "$")
		if strings.HasPrefix(arg, "--result=") {
			arg = "--result=" + k.result(pod)
		}
		args = append(args, arg)
	}
	binary := k.n.Binary
	if k.sys != "" {
		args = append([]string{"--mount", "sh", "-c", `mount --bind "$0" /sys && exec "$@"`, k.sys, binary}, args...)
		binary = "unshare"
	}
	process, err := k.n.Env.Cluster.StartCommand("pod", binary, args, nil)
	if err != nil {
		k.t.Error(err)
		return nil
	}
	process.Expect()
	k.started <- process
	return process
}

func (k *kubelet) result(pod *corev1.Pod) string { return filepath.Join(k.n.Folder, string(pod.UID)) }

// follow reports how a container ends.
func (k *kubelet) follow(pod *corev1.Pod, process *cluster.Process) {
	if process == nil {
		return
	}
	k.status(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	<-process.Done()
	message, _ := os.ReadFile(k.result(pod))
	ended := &corev1.ContainerStateTerminated{Reason: "Completed", Message: string(message)}
	phase := corev1.PodSucceeded
	if !cleanjob.Decode(string(message)).Clean {
		phase, ended.Reason, ended.ExitCode = corev1.PodFailed, "Error", 1
	}
	k.status(pod, phase, corev1.ContainerState{Terminated: ended})
	if now, err := k.client().Get(k.ctx, pod.Name, metav1.GetOptions{}); err == nil && now.DeletionTimestamp != nil {
		k.remove(now)
	}
	k.mu.Lock()
	k.pods[pod.UID] = nil // pods that are deleted from now on are removed
	k.mu.Unlock()
}

// status writes the status of a pod's only container.
func (k *kubelet) status(pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	for {
		now, err := k.client().Get(k.ctx, pod.Name, metav1.GetOptions{})
		if err == nil && now.UID == pod.UID {
			now.Status.Phase = phase
			now.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "clean", State: state}}
			_, err = k.client().UpdateStatus(k.ctx, now, metav1.UpdateOptions{})
		}
		if !apierrors.IsConflict(err) {
			if err != nil && !apierrors.IsNotFound(err) && k.ctx.Err() == nil {
				k.t.Error(err)
			}
			return
		}
	}
}

// remove removes a deleted pod that has ended.
func (k *kubelet) remove(pod *corev1.Pod) {
	err := k.client().Delete(k.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && k.ctx.Err() == nil {
		k.t.Error(err)
	}
}

func (k *kubelet) client() podClient { return k.n.Env.Client.CoreV1().Pods(provisioners.Namespace) }

// podClient has the requests of a kubelet for pods.
type podClient interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Pod, error)
	UpdateStatus(ctx context.Context, pod *corev1.Pod, opts metav1.UpdateOptions) (*corev1.Pod, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// setSys sets what new containers have as /sys.
func (k *kubelet) setSys(sys string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sys = sys
}

// hold makes the containers of new pods wait with a reason, or run if it is empty.
func (k *kubelet) hold(reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting = reason
}

// next is the next process of a Job that starts.
func (k *kubelet) next() *cluster.Process {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.ctx, k.n.Env.Timeout)
	defer cancel()
	select {
	case process := <-k.started:
		return process
	case <-ctx.Done():
		k.t.Fatalf("waited %s for a Job to begin\n%s", k.n.Env.Timeout, k.n.Env.Dump())
		return nil
	}
}
