// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate moves volumes between provisioners: it adopts those of
// sig-storage-local-static-provisioner (here: the reference), and releases those of Stowage.
//
// Both are for administrators, and not for provisioners, which see the volumes of their own
// node only and may not write those of others. Each has two halves: one finds volumes and
// decides about each, the other changes one volume, with one conditional write that fails if
// the volume has changed since. So both can be interrupted and repeated at any time.
//
// Nothing here touches a disk. The node's provisioner records the disk of an adopted volume
// when it first observes the volume.
package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// Verdict is the decision about a volume.
type Verdict string

// The verdicts.
const (
	// Take: the volume will be adopted.
	Take Verdict = "adopt"
	// Taken: it has been adopted.
	Taken Verdict = "adopted already"
	// Leave: it is not adopted, for the reason Candidate.Why.
	Leave Verdict = "left alone"
)

// AdoptOptions select volumes.
type AdoptOptions struct {
	// Config has the classes, with their folders.
	Config *provisioner.ProvisionerConfiguration
	// Nodes are the names of the volumes' nodes; none means all.
	Nodes []string
	// WhileRunning adopts volumes although a pod of the reference runs on their node.
	WhileRunning bool
}

// Candidate is a volume of the reference, or one that is at the path of one.
type Candidate struct {
	// Volume is the volume's name; Node its node's, empty if it is not known.
	Volume, Node string
	Class, Path  string
	Phase        corev1.PersistentVolumePhase
	Verdict      Verdict
	// Why is the reason of Leave, and what to do about it.
	Why string
	// Reference reports whether the reference created the volume.
	Reference bool

	object *corev1.PersistentVolume
	change change
}

// Adoption is the result of FindAdoptable.
type Adoption struct {
	// Candidates are sorted by node and path.
	Candidates []Candidate
	// Warnings name what could not be checked.
	Warnings []string
}

// FindAdoptable finds the volumes of the reference and decides about each. It changes nothing.
func FindAdoptable(ctx context.Context, client kubernetes.Interface, options AdoptOptions) (*Adoption, error) {
	v, warnings, err := newView(ctx, client, options)
	if err != nil {
		return nil, err
	}
	found := &Adoption{Warnings: warnings}
	paths := map[string][]string{} // volumes, by node and path
	err = each(ctx, client.CoreV1().PersistentVolumes().List, metav1.ListOptions{}, func(pv *corev1.PersistentVolume) {
		if place, ok := v.place(pv); ok {
			paths[place] = append(paths[place], pv.Name)
		}
		if c, ok := v.evaluate(pv); ok {
			found.Candidates = append(found.Candidates, c)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	for i := range found.Candidates {
		found.Candidates[i].excludeDuplicate(v, paths)
	}
	slices.SortFunc(found.Candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Volume, b.Volume))
	})
	return found, nil
}

// newView reads the objects that volumes are evaluated against.
func newView(ctx context.Context, client kubernetes.Interface, options AdoptOptions) (*view, []string, error) {
	v := &view{classes: options.Config.Classes, directories: options.Config.Directories(), wanted: options.Nodes}
	var err error
	if v.nodes, err = listNodes(ctx, client); err != nil {
		return nil, nil, err
	}
	for _, name := range options.Nodes {
		if _, ok := v.nodes.byName[name]; !ok {
			return nil, nil, fmt.Errorf("node %q does not exist", name)
		}
	}
	var warnings []string
	pods, err := referencePods(ctx, client)
	if err != nil {
		warnings = append(warnings, fmt.Sprintf("make sure that the reference no longer runs, which could not be determined: %v", err))
	}
	if !options.WhileRunning {
		v.running = pods
	} else if len(pods) > 0 {
		warnings = append(warnings, fmt.Sprintf("the reference still runs on %d nodes: it must not serve the classes of this configuration", len(pods)))
	}
	if v.jobs, err = referenceJobs(ctx, client); err != nil {
		warnings = append(warnings, fmt.Sprintf("make sure that none of the reference's jobs still cleans, which could not be determined: %v", err))
	}
	return v, warnings, nil
}

// excludeDuplicate excludes a volume whose disk another volume offers too.
func (c *Candidate) excludeDuplicate(v *view, paths map[string][]string) {
	place, ok := v.place(c.object)
	if c.Verdict != Take || !ok || len(paths[place]) < 2 {
		return
	}
	others := slices.DeleteFunc(slices.Clone(paths[place]), func(name string) bool { return name == c.Volume })
	c.Verdict, c.Why = Leave, fmt.Sprintf("the same path of the same node is offered by %s too: delete the volume without a claim", strings.Join(others, ", "))
}

// Adopt transfers a volume to the provisioner of its node. ErrChanged means that it has changed
// since it was found. A Candidate that is not to be adopted is not touched.
func Adopt(ctx context.Context, client kubernetes.Interface, c *Candidate) error {
	if c.Verdict != Take {
		return nil
	}
	_, err := write(ctx, client, c.Volume, c.change)
	return err
}

// adoption returns the change that makes a volume the node's provisioner's.
func adoption(pv *corev1.PersistentVolume, node, origin string) change {
	set := func(value string) *string { return &value }
	c := changeOf(pv)
	for key, value := range localpv.NodeLabels(node) {
		c.Labels[key] = set(value)
	}
	c.Annotations[wellknown.NodeNameAnnotation] = set(node)
	c.Annotations[localpv.ProvisionedByAnnotation] = set(localpv.ProvisionedBy(node))
	c.Annotations[wellknown.AdoptedFromAnnotation] = set(origin)
	if !slices.Contains(c.Finalizers, wellknown.LocalVolumeFinalizer) {
		c.Finalizers = append(c.Finalizers, wellknown.LocalVolumeFinalizer)
	}
	if len(pv.OwnerReferences) > 0 {
		// They name the Node, whose deletion must not delete its volumes.
		c.OwnerReferences = &[]metav1.OwnerReference{}
	}
	return c
}
