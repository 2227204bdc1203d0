// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// tellJoint asks two schedulers in turn to place one pod, with the same claims
// and the same volumes. One volume after the other it cannot be placed.
func tellJoint(ctx context.Context, d *demo) error {
	list, err := load("joint.yaml")
	if err != nil {
		return err
	}
	pods, claims := split[*v1.Pod](list)
	if len(pods) != 1 {
		return fmt.Errorf("joint.yaml has %d pods, want 1", len(pods))
	}
	pod := pods[0]
	d.say("ledger has two claims: journal asks 1Gi, index asks 2Gi of tier gold. node-b has " +
		"b-2gi-gold and b-5gi. The smaller claim, served first, takes the only golden volume. " +
		"kube-scheduler says:")
	if err := d.objects.createAll(ctx, append(claims, runtime.Object(pod))); err != nil {
		return err
	}
	said, err := d.watch.refusal(ctx, pod.Name, stock, noVolumes)
	if err != nil {
		return err
	}
	d.quote(said)
	d.say("The same pod with schedulerName: %s, whose claims are matched together:", stowage)
	if err := d.cluster.Client().CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := d.watch.gone(ctx, pod.Name); err != nil {
		return err
	}
	pod = pod.DeepCopy()
	pod.Spec.SchedulerName = stowage
	return d.run(ctx, pod)
}
