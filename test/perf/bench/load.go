// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/retry"

	"stowage.dev/stowage/test/perf/parts"
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
	if err := parts.Each(ctx, len(pods), func(ctx context.Context, i int) error {
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
	kinds := []func(context.Context, *setup, int) error{touchNode, touchVolume, addVolume}
	for i := range pods {
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		if err := kinds[i%len(kinds)](ctx, s, i); err != nil {
			return err
		}
		s.events++
	}
	return nil
}

func touchNode(ctx context.Context, s *setup, i int) error {
	nodes := s.client.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(ctx, nodeName(i%s.workload.Nodes), metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Labels["touched"] = strconv.Itoa(i)
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

func touchVolume(ctx context.Context, s *setup, i int) error {
	volumes := s.client.CoreV1().PersistentVolumes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pv, err := volumes.Get(ctx, s.volumes[i%len(s.volumes)].Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&pv.ObjectMeta, "touched", strconv.Itoa(i))
		_, err = volumes.Update(ctx, pv, metav1.UpdateOptions{})
		return err
	})
}

func addVolume(ctx context.Context, s *setup, i int) error {
	_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, s.volume(len(s.volumes)+i), metav1.CreateOptions{})
	return err
}
