// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// step is one of the story's.
type step struct {
	title string
	tell  func(ctx context.Context, d *demo) error
}

// story is told from first to last.
var story = []step{
	{"Four nodes in two zones, with local volumes of different sizes", tellNodes},
	{"A StatefulSet: three replicas, each with two claims", tellStatefulSet},
	{"A pod that the stock scheduler cannot place", tellJoint},
	{"A pod that cannot be placed", tellRefused},
	{"A volume kept for a claim by hand", tellPreBound},
	{"A class whose volumes are made on demand, in one zone only", tellDynamic},
	{"Three nodes publish their own disks", tellAgents},
	{"A StatefulSet on published volumes", tellShop},
	{"Volumes given back, cleaned and published again", tellGivenBack},
	{"The StatefulSet comes again", tellAgain},
}

// place applies a file of manifests with one pod for our scheduler, waits until
// it runs and tells where its claims ended up.
func (d *demo) place(ctx context.Context, file string) error {
	list, err := load(file)
	if err != nil {
		return err
	}
	pods, rest := split[*v1.Pod](list)
	if len(pods) != 1 {
		return fmt.Errorf("%s has %d pods, want 1", file, len(pods))
	}
	if err := d.createAll(ctx, rest); err != nil {
		return err
	}
	return d.run(ctx, pods[0])
}

// run creates the pod, waits until it runs and tells where.
func (d *demo) run(ctx context.Context, pod *v1.Pod) error {
	begin := time.Now()
	if err := d.objects.createAll(ctx, []runtime.Object{pod}); err != nil {
		return err
	}
	placed, err := d.watch.running(ctx, pod.Name)
	if err != nil {
		return err
	}
	if err := d.tellPlaced(placed); err != nil {
		return err
	}
	d.say("(%d ms from creating the pod to seeing it run)", time.Since(begin).Milliseconds())
	return nil
}

// tellPlaced tells where a pod runs and which volumes its claims have.
func (d *demo) tellPlaced(pod *v1.Pod) error {
	d.say("%s runs on %s", pod.Name, pod.Spec.NodeName)
	for _, name := range claimsOf(pod) {
		claim, err := d.watch.claims.Get(name)
		if err != nil {
			return err
		}
		asked := claim.Spec.Resources.Requests[v1.ResourceStorage]
		given := claim.Status.Capacity[v1.ResourceStorage]
		d.say("- claim %s asks %s and has volume %s of %s", name, asked.String(), short(claim.Spec.VolumeName), given.String())
	}
	return nil
}

// claimsOf are the names of the pod's claims, in order.
func claimsOf(pod *v1.Pod) []string {
	var names []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}
