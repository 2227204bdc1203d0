// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// ReleaseOptions select the volumes to release, and how.
type ReleaseOptions struct {
	// Namespace is that of the provisioners and of their cleaning Jobs; if it is empty they are
	// found in all namespaces.
	Namespace string
	// All means those of all nodes, also of nodes that are gone; Nodes those of these.
	// Exactly one of the two is set.
	All   bool
	Nodes []string
	// GiveBack transfers the volumes to the reference, which then manages them instead of
	// publishing their disks again. Volumes that are being deleted are then kept.
	GiveBack bool
	// NodeNameOnly reports whether the reference's key useNodeNameOnly is set.
	NodeNameOnly bool
	// Withdraw deletes unclaimed volumes when they are released.
	Withdraw bool
	// WhileRunning releases volumes although their provisioner runs, which adopts them again.
	WhileRunning bool
}

// Data is what may be on the disk of a volume.
type Data string

// The values of Data.
const (
	// AsPublished: the volume was not used.
	AsPublished Data = "as published"
	// OfClaim: the data of the volume's claim.
	OfClaim Data = "data of its claim"
	// NotCleaned: the data of a deleted claim, or some of it.
	NotCleaned Data = "NOT CLEANED"
)

// Held is a volume that has Stowage's finalizer, labels or annotations.
type Held struct {
	// Volume is the volume's name; Node its node's, empty if unknown.
	Volume, Node string
	Class, Path  string
	// Claim is namespace/name of the claim that the volume names, empty for none.
	Claim string
	Phase corev1.PersistentVolumePhase
	// Deleting reports whether the volume disappears when it is released; Withdrawn whether it
	// is deleted then, because it has no claim.
	Deleting, Withdrawn bool
	Data                Data
	// Kept is why the volume is not released, and what to do about it; empty if it is released.
	Kept string

	change change
}

// FindHeld finds the volumes of Stowage's provisioners, by node and path, and decides about
// each. It changes nothing.
func FindHeld(ctx context.Context, client kubernetes.Interface, options ReleaseOptions) ([]Held, error) {
	if options.All == (len(options.Nodes) > 0) {
		return nil, errors.New("select either all nodes or some by name")
	}
	nodes, err := listNodes(ctx, client)
	if err != nil {
		return nil, err
	}
	var busy running
	if !options.WhileRunning {
		if busy, err = findRunning(ctx, client, options.Namespace); err != nil {
			return nil, err
		}
	}
	var found []Held
	err = each(ctx, client.CoreV1().PersistentVolumes().List, metav1.ListOptions{}, func(pv *corev1.PersistentVolume) {
		if !options.wants(pv) {
			return
		}
		h := held(pv)
		pod, cleaner, ready := busy.provisioners[h.Node], busy.cleaners[pv.UID], nodes.byName[h.Node].ready
		switch {
		case pod != "" && ready:
			h.Kept = fmt.Sprintf("its provisioner still runs (pod %s) and would adopt it again: delete the DaemonSet, or keep it off the node", pod)
		case cleaner != "" && ready:
			h.Kept = fmt.Sprintf("its disk is still being cleaned (%s): wait until it ends, or delete the Job and wait for its pod", cleaner)
		default:
			h.plan(pv, nodes, options)
		}
		found = append(found, h)
	})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	slices.SortFunc(found, func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Volume, b.Volume))
	})
	return found, nil
}

// wants reports whether a volume belongs to a provisioner on a selected node.
func (o *ReleaseOptions) wants(pv *corev1.PersistentVolume) bool {
	name := pv.Annotations[wellknown.NodeNameAnnotation]
	held, ours := slices.Contains(pv.Finalizers, wellknown.LocalVolumeFinalizer), name != "" && localpv.Owned(pv, name)
	if !held && (!ours || !o.GiveBack) {
		return false
	}
	return o.All || slices.ContainsFunc(o.Nodes, func(node string) bool {
		return name == node || pv.Labels[wellknown.NodeLabel] == localpv.NodeHash(node)
	})
}

// held returns the state of a volume.
func held(pv *corev1.PersistentVolume) Held {
	volume, _ := localpv.VolumeOf(pv, nil) // one without a path is released too
	h := Held{
		Volume: pv.Name, Node: pv.Annotations[wellknown.NodeNameAnnotation], Class: volume.Key.Class, Path: volume.HostPath,
		Phase: pv.Status.Phase, Deleting: pv.DeletionTimestamp != nil, Data: AsPublished,
	}
	if claim := pv.Spec.ClaimRef; claim != nil {
		h.Claim = claim.Namespace + "/" + claim.Name
	}
	switch {
	case h.Phase == corev1.VolumeBound:
		h.Data = OfClaim
	case h.Phase == corev1.VolumeReleased, h.Phase == corev1.VolumeFailed, h.Deleting && h.Claim != "":
		h.Data = NotCleaned
	}
	return h
}

// plan decides how the volume is released.
func (h *Held) plan(pv *corev1.PersistentVolume, nodes nodes, options ReleaseOptions) {
	h.change = changeOf(pv)
	h.change.Finalizers = slices.DeleteFunc(h.change.Finalizers, func(f string) bool { return f == wellknown.LocalVolumeFinalizer })
	if !options.GiveBack {
		h.Withdrawn = options.Withdraw && h.Phase == corev1.VolumeAvailable && h.Claim == "" && !h.Deleting
		return
	}
	former := pv.Annotations[wellknown.AdoptedFromAnnotation]
	if former == "" {
		node, ok := nodes.byName[h.Node]
		if !ok {
			h.Kept = "its node is gone, so the reference cannot manage it: release it without --give-back"
			return
		}
		if former = referencePrefix + h.Node; !options.NodeNameOnly {
			former += "-" + string(node.uid)
		}
	}
	if h.Deleting {
		h.Kept = "it is being deleted, and the reference would publish its disk as it is: let the provisioner finish, or clean the disk and release it without --give-back"
		return
	}
	for _, key := range []string{
		wellknown.NodeNameAnnotation, wellknown.AdoptedFromAnnotation, wellknown.DiskIdentityAnnotation,
		wellknown.DiskBytesAnnotation, wellknown.GenerationAnnotation, wellknown.SameDiskAnnotation, wellknown.DiskAnnotation,
	} {
		if _, found := pv.Annotations[key]; found {
			h.change.Annotations[key] = nil
		}
	}
	h.change.Annotations[localpv.ProvisionedByAnnotation] = &former
	h.change.Labels[wellknown.NodeLabel], h.change.Labels[wellknown.NodeNameLabel] = nil, nil
}

// Release releases a volume. ErrChanged means that it has changed since it was found. A volume
// with Kept is not changed.
func Release(ctx context.Context, client kubernetes.Interface, h *Held) error {
	if h.Kept != "" {
		return nil
	}
	pv, err := write(ctx, client, h.Volume, h.change)
	if err != nil || !h.Withdrawn {
		return err
	}
	return withdraw(ctx, client, pv)
}
