// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// lettersYAML is a StatefulSet for real nodes.
//
//go:embed real/letters.yaml
var lettersYAML []byte

var errRead = errors.New("a volume does not have what it should")

// letters is the StatefulSet under a name. Pods of others than letters write nothing.
func letters(name string) (*appsv1.StatefulSet, error) {
	list, err := decode(lettersYAML)
	if err != nil {
		return nil, err
	}
	sets, rest := split[*appsv1.StatefulSet](list)
	if len(sets) != 1 || len(rest) > 0 {
		return nil, fmt.Errorf("letters.yaml has %d StatefulSets and %d other objects, want 1 and 0", len(sets), len(rest))
	}
	set := sets[0]
	if name != set.Name {
		labels := map[string]string{"app": name}
		set.Name, set.Spec.ServiceName = name, name
		set.Spec.Selector.MatchLabels, set.Spec.Template.Labels = labels, labels
		set.Spec.Template.Spec.InitContainers = nil
	}
	return set, nil
}

// placeLetters creates the StatefulSet under a name, waits until its pods run, tells where, and
// returns their volumes.
func (d *demo) placeLetters(ctx context.Context, name string) ([]*v1.PersistentVolume, error) {
	set, err := letters(name)
	if err != nil {
		return nil, err
	}
	if err := d.objects.createAll(ctx, []runtime.Object{set}); err != nil {
		return nil, err
	}
	for _, pod := range []string{name + "-0", name + "-1"} {
		placed, err := d.watch.running(ctx, pod)
		if err != nil {
			return nil, err
		}
		if err := d.tellPlaced(placed); err != nil {
			return nil, err
		}
	}
	return d.volumesOf("data-"+name+"-0", "data-"+name+"-1")
}

// tellLetters has pods write.
func tellLetters(ctx context.Context, d *demo) (err error) {
	d.say("Each replica asks 1Gi of local-disks, and adds a line to a file in it whenever it starts.")
	if d.former, err = d.placeLetters(ctx, "letters"); err != nil {
		return err
	}
	return errors.Join(
		d.tellExec(ctx, "letters-0 was here", "letters-0", "cat", "/data/letters.txt"),
		d.tellExec(ctx, "letters-1 was here", "letters-1", "cat", "/data/letters.txt"))
}

// tellDeleted deletes a pod, whose successor gets the same volume.
func tellDeleted(ctx context.Context, d *demo) error {
	was, err := d.watch.running(ctx, "letters-0")
	if err != nil {
		return err
	}
	if err := d.cluster.Client().CoreV1().Pods(namespace).Delete(ctx, was.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	var now *v1.Pod
	if err := d.watch.until(ctx, "another letters-0 runs", func() (bool, error) {
		pod, err := d.watch.pods.Get(was.Name)
		now = pod
		return err == nil && pod.UID != was.UID && pod.Status.Phase == v1.PodRunning, nil
	}, func() string { return "" }); err != nil {
		return err
	}
	if now.Spec.NodeName != was.Spec.NodeName {
		return fmt.Errorf("letters-0 runs on %s, and its volume is on %s", now.Spec.NodeName, was.Spec.NodeName)
	}
	d.say("letters-0 was deleted, and another one runs on %s, where its volume is.", now.Spec.NodeName)
	return d.tellExec(ctx, "letters-0 was here\nletters-0 was here", "letters-0", "cat", "/data/letters.txt")
}

// tellCleaned gives the volumes back.
func tellCleaned(ctx context.Context, d *demo) error {
	d.say("The StatefulSet is deleted, and then its claims. Times count from the deletion of the first claim.")
	if err := d.cluster.Client().AppsV1().StatefulSets(namespace).Delete(ctx, "letters", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, pod := range []string{"letters-0", "letters-1"} {
		if err := d.watch.gone(ctx, pod); err != nil {
			return err
		}
	}
	d.lives.restart()
	for _, pv := range d.former {
		if err := d.cluster.Client().CoreV1().PersistentVolumeClaims(namespace).Delete(ctx, pv.Spec.ClaimRef.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	cycles, err := d.watch.lifeCycles(ctx, d.lives, d.former)
	if err != nil {
		return err
	}
	return d.tellLives(cycles)
}

// tellTenant has others use the disks.
func tellTenant(ctx context.Context, d *demo) error {
	volumes, err := d.placeLetters(ctx, "tenant")
	if err != nil {
		return err
	}
	return errors.Join(checkAnew(d.former, volumes),
		d.tellExec(ctx, "lost+found", "tenant-0", "ls", "-A", "/data"),
		d.tellExec(ctx, "lost+found", "tenant-1", "ls", "-A", "/data"))
}

// tellExec runs a command in a pod, and shows what it prints, which has to be as wanted.
func (d *demo) tellExec(ctx context.Context, want, pod string, command ...string) error {
	args := append([]string{"exec", pod, "--"}, command...)
	out, err := d.kubectl(ctx, args...)
	if err != nil {
		return err
	}
	d.say("kubectl %s", strings.Join(args, " "))
	for line := range strings.Lines(out) {
		d.quote(line)
	}
	if strings.TrimSpace(out) != want {
		return fmt.Errorf("%w: pod %s reads %q, want %q", errRead, pod, out, want)
	}
	return nil
}
