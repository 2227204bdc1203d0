// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/logkeys"
)

// clearedNode is the Node whose startup taint was removed.
type clearedNode struct {
	uid types.UID
	// checked reports whether this is still the Node, as of the last check that the report
	// exists. A Node that is created again while the provisioner runs has the taint again.
	checked bool
}

// removeTaint removes the startup taint of the node when every disk was published or is known
// not to be, and the volumes whose disks are missing are marked: before that, pods would be
// placed on nodes whose volumes are known already, or be mounted a wrong disk. A taint that
// returns to a Node afterwards belongs to another component.
func (r *Reporter) removeTaint(ctx context.Context) error {
	settings := r.Settings()
	if !settings.RemoveNodeNotReadyTaint || r.cleared.checked || !r.Provisioner.AllDecided() {
		return nil
	}
	node, err := r.Client.CoreV1().Nodes().Get(ctx, r.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && r.cleared.uid != "":
		r.cleared.checked = true // it may exist at the next check
		return nil
	case err != nil:
		return fmt.Errorf("remove the startup taint: get node %s: %w", r.Node, err)
	}
	if node.UID != r.cleared.uid {
		if err := r.untaint(ctx, node, settings.NodeNotReadyTaintKey); err != nil {
			return fmt.Errorf("remove the startup taint: %w", err)
		}
	}
	r.cleared = clearedNode{uid: node.UID, checked: true}
	return nil
}

// Decided reports whether a path is past its first publication, and the mark of its volume,
// if it has one, is up to date. A disk that is Bound and Missing may be missing for a moment.
func (e *Entry) Decided() bool {
	switch {
	case e == nil, e.marking:
		return false
	case e.State == stowage.EntryBound:
		return e.Reason != string(disk.Missing)
	default:
		return e.State != stowage.EntryPending || e.Reason != ""
	}
}

// untaint removes one taint from the node, if it has it.
func (r *Reporter) untaint(ctx context.Context, node *corev1.Node, key string) error {
	kept := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == key })
	if len(kept) == len(node.Spec.Taints) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": kept},
	})
	if err != nil {
		return fmt.Errorf("patch node %s: %w", r.Node, err)
	}
	if _, err := r.Client.CoreV1().Nodes().Patch(ctx, r.Node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch node %s: %w", r.Node, err)
	}
	klog.FromContext(ctx).V(2).Info("Removed the startup taint of the node", logkeys.Node, klog.KRef("", r.Node), "taint", key)
	return nil
}
