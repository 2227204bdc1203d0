// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
)

const (
	// rolling is the number of pods at a time that are created and deleted. Every third has two
	// volumes, so even if four of six do, some node has volumes for the next one.
	rolling = 6
	// roleLabel is whether a pod is deleted during the test or kept.
	roleLabel = "role"
	// dirty is the exit code of pods whose volume is not empty.
	dirty = 3
)

// check fails unless all volumes are empty, then writes the pod's name and enough files into them
// that cleaning takes time. It may be killed at any moment, and repeated.
const check = `for d in /data/*; do
	owner=$(cat $d/owner 2>/dev/null)
	if [ "$owner" != $OWNER ]; then
		mine=$d/.of-$OWNER
		found=$(find $d -mindepth 1 ! -name lost+found ! -path $mine | head -n 3)
		[ -z "$found" ] || { echo "$d is $owner's: $found"; exit 3; }
		echo $OWNER | dd of=$mine conv=fsync && mv $mine $d/owner || exit 1
	fi
	mkdir -p $d/a/b $d/many && echo deep >$d/a/b/.hidden && cd $d/many && seq 5000 | xargs touch || exit 1
done`

// load creates and deletes pods, and records the observed pods, claims and volumes.
type load struct {
	e *frame.Env

	mu sync.Mutex
	// changed is closed when anything changes.
	changed chan struct{}
	// broken are the rules that were broken.
	broken []string

	// next is the number of the next pod, and ran how many of the deleted pods have run.
	next, ran int
	// stays stops the deletion of pods, over their creation.
	stays, over bool
	// ready are the UIDs of running pods by name, and seen those of all pods that ever ran.
	ready map[string]types.UID
	seen  map[types.UID]bool

	// lives are the existing volumes by UID, and claims the claims by volume name.
	lives  map[types.UID]*life
	claims map[string]types.UID
}

func emptyLoad(e *frame.Env) *load {
	return &load{
		e: e, changed: make(chan struct{}), ready: map[string]types.UID{}, seen: map[types.UID]bool{},
		lives: map[types.UID]*life{}, claims: map[string]types.UID{},
	}
}

// newLoad watches, and makes no pods yet.
func newLoad(e *frame.Env) *load {
	e.T.Helper()
	l := emptyLoad(e)
	ctx, cancel := context.WithCancel(e.Context)
	factory := informers.NewSharedInformerFactoryWithOptions(e.Client, 0, informers.WithNamespace(e.Namespace))
	core := factory.Core().V1()
	watch(l, core.PersistentVolumes().Informer(), l.sawVolume, l.lostVolume)
	watch(l, core.PersistentVolumeClaims().Informer(), l.sawClaim, l.lostClaim)
	watch(l, core.Pods().Informer(), l.sawPod, l.lostPod)
	factory.Start(ctx.Done())
	e.T.Cleanup(func() {
		cancel()
		factory.Shutdown()
		if e.T.Failed() {
			e.T.Log(l.history())
		}
	})
	return l
}

// watch calls saw for existing and lost for deleted objects, one at a time.
func watch[T metav1.Object](l *load, informer cache.SharedIndexInformer, saw, lost func(T)) {
	call := func(f func(T), object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		o, ok := object.(T)
		if !ok {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		f(o)
		close(l.changed)
		l.changed = make(chan struct{})
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { call(saw, o) },
		UpdateFunc: func(before, now any) {
			if b, ok := before.(T); ok && b.GetUID() != now.(T).GetUID() {
				call(lost, before)
			}
			call(saw, now)
		},
		DeleteFunc: func(o any) { call(lost, o) },
	})
	l.e.Do(err)
}

// wait returns when is, which is called with the lock held, returns true. Broken rules fail the test.
func (l *load) wait(what string, is func() bool) {
	l.e.T.Helper()
	for {
		l.mu.Lock()
		done, broken, changed := is(), l.broken, l.changed
		l.mu.Unlock()
		if len(broken) > 0 {
			l.e.T.Fatalf("while waiting until %s: %s", what, broken)
		}
		if done {
			return
		}
		select {
		case <-changed:
		case <-l.e.Context.Done():
			l.e.T.Fatalf("wait until %s: %v; %d pods have run", what, l.e.Context.Err(), l.count())
		}
	}
}

// breaks records that a rule was broken.
func (l *load) breaks(format string, args ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

// count is how many of the deleted pods have run.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ran
}

// begin creates one permanent pod on each node, and the first that are deleted later.
func (l *load) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, node := range chaosNodes {
		name := "kept-" + node
		pod := l.pod(name, "kept", corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		l.e.Create(l.e.Claim(name, "chaos"), pod)
	}
	for range rolling {
		l.more()
	}
}

// more creates the next pod.
func (l *load) more() {
	var volumes []corev1.Volume
	for i := range 1 + (l.next%3)/2 {
		volumes = append(volumes, corev1.Volume{Name: fmt.Sprintf("data-%d", i), VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: l.e.Claim("", "chaos").Spec}},
		}})
	}
	pod := l.pod(fmt.Sprintf("rolling-%d", l.next), "rolling", volumes...)
	l.next++
	if _, err := l.e.Client.CoreV1().Pods(l.e.Namespace).Create(l.e.Context, pod, metav1.CreateOptions{}); err != nil {
		l.breaks("create pod %s: %v", pod.Name, err)
	}
}

// pod runs until it is deleted once it has found its volumes empty.
func (l *load) pod(name, role string, volumes ...corev1.Volume) *corev1.Pod {
	pod := l.e.Shell(name, "exec sleep 1000000")
	pod.Labels = map[string]string{roleLabel: role}
	pod.Spec.SchedulerName = "stowage-scheduler"
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Volumes = volumes
	var mounts []corev1.VolumeMount
	for _, v := range volumes {
		mounts = append(mounts, corev1.VolumeMount{Name: v.Name, MountPath: "/data/" + v.Name})
	}
	pod.Spec.Containers[0].VolumeMounts = mounts
	uid := corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "check", Image: realnode.BusyboxImage, Command: []string{"/bin/sh", "-c", check}, VolumeMounts: mounts,
		Env:                      []corev1.EnvVar{{Name: "OWNER", ValueFrom: &uid}},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}}
	return pod
}

func (l *load) sawPod(pod *corev1.Pod) {
	for _, s := range pod.Status.InitContainerStatuses {
		for _, end := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if end != nil && end.ExitCode == dirty {
				l.breaks("pod %s, %s, found its volume dirty: %s", pod.Name, pod.UID, end.Message)
			}
		}
	}
	if pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp == nil {
		l.breaks("pod %s failed: %s: %s", pod.Name, pod.Status.Reason, pod.Status.Message)
	}
	if !frame.Ready(pod) || pod.DeletionTimestamp != nil {
		delete(l.ready, pod.Name)
		return
	}
	l.ready[pod.Name] = pod.UID
	if pod.Labels[roleLabel] != "rolling" || l.seen[pod.UID] {
		return
	}
	l.seen[pod.UID] = true
	l.ran++
	if l.stays {
		return
	}
	if err := l.e.Client.CoreV1().Pods(l.e.Namespace).Delete(l.e.Context, pod.Name, metav1.DeleteOptions{}); err != nil {
		l.breaks("delete pod %s: %v", pod.Name, err)
	}
}

func (l *load) lostPod(pod *corev1.Pod) {
	delete(l.ready, pod.Name)
	if pod.Labels[roleLabel] == "rolling" && !l.over {
		l.more()
	}
}

// stay stops the deletion of pods.
func (l *load) stay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stays = true
}

// allRun reports whether all pods run.
func (l *load) allRun() bool { return len(l.ready) == rolling+len(chaosNodes) }

// running are the pods that run, UIDs by name.
func (l *load) running() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string]string{}
	for name, uid := range l.ready {
		found[name] = string(uid)
	}
	return found
}

// end deletes all pods and claims.
func (l *load) end() {
	l.e.T.Helper()
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.e.Do(l.e.Client.CoreV1().Pods(l.e.Namespace).DeleteCollection(l.e.Context, metav1.DeleteOptions{}, metav1.ListOptions{}))
	l.e.Do(l.e.Client.CoreV1().PersistentVolumeClaims(l.e.Namespace).DeleteCollection(l.e.Context, metav1.DeleteOptions{}, metav1.ListOptions{}))
}
