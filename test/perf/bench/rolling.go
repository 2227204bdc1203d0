// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/perf/parts"
)

const (
	replicas = 5 // of each StatefulSet
	rounds   = 2 // a pod is created when its set is and again when that is rolled
)

// rollStatefulSets creates StatefulSets whose pods are created one after the other,
// waits until all pods have a node, and rolls all sets. pods only gives the total number of
// pods.
func rollStatefulSets(ctx context.Context, s *setup, pods []*v1.Pod) error {
	done, sets := s.recorder.count(), len(pods)/replicas/rounds
	if err := parts.Each(ctx, sets, func(ctx context.Context, i int) error {
		_, err := s.client.AppsV1().StatefulSets(namespace).Create(ctx, statefulSet(i), metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := s.recorder.await(ctx, done+sets*replicas); err != nil {
		return err
	}
	roll := []byte(`{"spec":{"template":{"metadata":{"annotations":{"rolled":"yes"}}}}}`)
	if err := parts.Each(ctx, sets, func(ctx context.Context, i int) error {
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
