// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-helpers/storage/volume"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
)

// create creates a pod and records when.
func (s *setup) create(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	begin := time.Now()
	made, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	s.recorder.create(made.UID, begin)
	return made, nil
}

// allAtOnce creates all pods as fast as it can.
func allAtOnce(ctx context.Context, s *setup, pods []*v1.Pod) error {
	done := s.recorder.count()
	if err := await.Each(ctx, len(pods), func(ctx context.Context, i int) error {
		_, err := s.create(ctx, pods[i])
		return err
	}); err != nil {
		return err
	}
	return s.recorder.await(ctx, done+len(pods))
}

// oneByOne creates a pod when the one before is done.
func oneByOne(ctx context.Context, s *setup, pods []*v1.Pod) error {
	for i := range pods {
		if err := allAtOnce(ctx, s, pods[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

const (
	waitingPods     = 1000
	eventsPerSecond = 25
)

// letPodsWait creates pods that cannot be scheduled and waits until a first
// attempt was made for each.
func letPodsWait(ctx context.Context, s *setup) error {
	pods, err := s.makePods(ctx, "waiting", waitingPods)
	if err != nil {
		return err
	}
	s.progress("%d pods that fit nowhere", waitingPods)
	return allAtOnce(ctx, s, pods)
}

// sendEvents changes things at a steady pace that could, but do not, help the
// pods that wait: a node's label, a volume's annotation, a new volume. It sends
// one event for each pod of the load and creates none of them.
func sendEvents(ctx context.Context, s *setup, pods []*v1.Pod) error {
	pace := flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, 1)
	for i := range pods {
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		if err := s.sendEvent(ctx, i); err != nil {
			return err
		}
		s.events++
	}
	return nil
}

func (s *setup) sendEvent(ctx context.Context, i int) (err error) {
	const touched = `{"metadata":{%q:{"touched":"%d"}}}`
	core := s.client.CoreV1()
	switch i % 3 {
	case 0:
		_, err = core.Nodes().Patch(ctx, nodeName(i%s.workload.Nodes), types.MergePatchType, fmt.Appendf(nil, touched, "labels", i), metav1.PatchOptions{})
	case 1:
		_, err = core.PersistentVolumes().Patch(ctx, s.volumes[i%len(s.volumes)].Name, types.MergePatchType, fmt.Appendf(nil, touched, "annotations", i), metav1.PatchOptions{})
	case 2:
		_, err = core.PersistentVolumes().Create(ctx, s.volume(len(s.volumes)+i), metav1.CreateOptions{})
	}
	return err
}

const (
	replicas = 5 // of each StatefulSet
	rounds   = 2 // a pod is created when its set is and again when that is rolled
)

// rollStatefulSets creates StatefulSets whose pods are created one after the other,
// waits until all pods have a node, and rolls all sets. pods only gives the total number of
// pods.
func rollStatefulSets(ctx context.Context, s *setup, pods []*v1.Pod) error {
	done, sets := s.recorder.count(), len(pods)/replicas/rounds
	if err := await.Each(ctx, sets, func(ctx context.Context, i int) error {
		_, err := s.client.AppsV1().StatefulSets(namespace).Create(ctx, statefulSet(i), metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := s.recorder.await(ctx, done+sets*replicas); err != nil {
		return err
	}
	roll := []byte(`{"spec":{"template":{"metadata":{"annotations":{"rolled":"yes"}}}}}`)
	if err := await.Each(ctx, sets, func(ctx context.Context, i int) error {
		_, err := s.client.AppsV1().StatefulSets(namespace).Patch(ctx, statefulSet(i).Name, types.StrategicMergePatchType, roll, metav1.PatchOptions{})
		return err
	}); err != nil {
		return err
	}
	return s.recorder.await(ctx, done+sets*replicas*rounds)
}

func statefulSet(i int) *appsv1.StatefulSet {
	name := fmt.Sprintf("set-%d", i)
	labels := map[string]string{"set": name}
	template := builders.MakePod("").Label("set", name).SchedulerName(v1.DefaultSchedulerName).Requests("10m", "10Mi").Obj()
	template.Spec.TerminationGracePeriodSeconds = new(int64)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template.Spec},
			VolumeClaimTemplates: []v1.PersistentVolumeClaim{
				*builders.MakePVC("data").Class(class).Request(claimSize).Obj(),
			},
		},
	}
}

// bareClient creates the pods as fast as allAtOnce does and sends for each the writes of
// scheduling, with the places chosen beforehand: pod n is bound to node n
// modulo the number of nodes, and takes that node's next volumes. It is an upper bound of
// the speed of any scheduler that sends the same writes.
func bareClient(ctx context.Context, s *setup, pods []*v1.Pod) error {
	done, taken := s.recorder.count(), int(s.nextVolume.Load())
	created := make(chan func() error, len(pods))
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(created)
		return await.Each(working, len(pods), func(ctx context.Context, i int) error {
			pod, err := s.create(ctx, pods[i])
			if err != nil {
				return err
			}
			created <- func() error { return s.place(working, pod, taken+i) }
			return nil
		})
	})
	for range parallelism {
		group.Go(func() error {
			for place := range created {
				if err := place(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.nextVolume.Add(int64(len(pods)))
	return s.recorder.await(ctx, done+len(pods))
}

// place writes what scheduling the n-th pod writes: the nominated node, for
// each claim the volume, the claim and both statuses, and the binding.
func (s *setup) place(ctx context.Context, pod *v1.Pod, n int) error {
	node := nodeName(n % s.workload.Nodes)
	nominated := fmt.Appendf(nil, `{"status":{"nominatedNodeName":%q}}`, node)
	if _, err := s.client.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, nominated, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	for c := range s.workload.ClaimsPerPod {
		if err := s.bind(ctx, claimName(pod.Name, c), s.volumes[s.volumeFor(n, c)]); err != nil {
			return err
		}
	}
	return s.client.CoreV1().Pods(namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// volumeFor is the number of the volume for a claim of the n-th pod. Each round
// over the nodes takes as many volumes of a node as a pod has claims.
func (s *setup) volumeFor(n, claim int) int {
	round, node := n/s.workload.Nodes, n%s.workload.Nodes
	return (round*s.workload.ClaimsPerPod+claim)*s.workload.Nodes + node
}

// bind binds a claim to a volume. Where the PV controller was first, no
// write is left.
func (s *setup) bind(ctx context.Context, name string, pv *v1.PersistentVolume) error {
	s.mu.Lock()
	claim := s.claims[name]
	s.mu.Unlock()
	volumes, claims := s.client.CoreV1().PersistentVolumes(), s.client.CoreV1().PersistentVolumeClaims(namespace)
	bound, _, err := volume.GetBindVolumeToClaim(pv, claim)
	if err != nil {
		return err
	}
	if bound, err = volumes.Update(ctx, bound, metav1.UpdateOptions{}); err != nil {
		return err
	}
	claim = claim.DeepCopy()
	claim.Spec.VolumeName = pv.Name
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBoundByController, "yes")
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	if claim, err = ifFirst(claims.Update(ctx, claim, metav1.UpdateOptions{})); err != nil {
		return err
	}
	bound.Status.Phase = v1.VolumeBound
	if _, err = ifFirst(volumes.UpdateStatus(ctx, bound, metav1.UpdateOptions{})); err != nil {
		return err
	}
	if claim == nil {
		return nil
	}
	claim.Status.Phase, claim.Status.AccessModes, claim.Status.Capacity = v1.ClaimBound, pv.Spec.AccessModes, pv.Spec.Capacity
	_, err = ifFirst(claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}))
	return err
}

// ifFirst is nil without an error when another writer wrote the object first.
func ifFirst[T any](object *T, err error) (*T, error) {
	if apierrors.IsConflict(err) {
		return nil, nil
	}
	return object, err
}
