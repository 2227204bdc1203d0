// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

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

// untainted is the Node of which the startup taint was taken off. Who tells users, alone,
// reads and writes it.
type untainted struct {
	uid types.UID
	// looked says that this is still the Node, since it was last made sure that the report
	// is there. A Node that is made anew under its agent has the taint again.
	checked bool
}

// removeTaint takes the startup taint off the node, once everything that was found is
// published or known not to be, and the volumes whose disks are not here say so: until
// then pods would go to nodes whose volumes are already known, or meet a wrong disk. Of a
// Node that it was taken off before it is somebody else's.
func (p *Provisioner) removeTaint(ctx context.Context) error {
	conf := p.current()
	if !conf.RemoveNodeNotReadyTaint || p.untainted.checked || !p.allDecided() {
		return nil
	}
	node, err := p.Client.CoreV1().Nodes().Get(ctx, p.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && p.untainted.uid != "":
		p.untainted.checked = true // it may be back when it is looked for again
		return nil
	case err != nil:
		return fmt.Errorf("take the startup taint off: get node %s: %w", p.Node, err)
	}
	if node.UID != p.untainted.uid {
		if err := p.untaint(ctx, node, conf.NodeNotReadyTaintKey); err != nil {
			return fmt.Errorf("take the startup taint off: %w", err)
		}
	}
	p.untainted = untainted{uid: node.UID, checked: true}
	return nil
}

// settled says whether every disk that was found, and every volume, has been decided
// about.
func (p *Provisioner) allDecided() bool {
	if p.checkReads("") != nil {
		return false
	}
	for _, object := range p.volumes.GetStore().List() {
		if path := pathOf(object); path != "" && !p.status.decidedAbout(path) {
			return false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for path, fact := range p.scan_.facts {
		if fact.Problem == nil && !p.status.decidedAbout(path) {
			return false
		}
	}
	return true
}

// decidedAbout says whether a slot is past being published for the first time, and its
// volume, if it has one, says how its disk stands: one that is Bound and Missing was not
// found for a moment.
func (r *statusReporter) decidedAbout(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[path]
	switch {
	case e == nil, e.marking:
		return false
	case e.State == stowage.EntryBound:
		return e.Reason != string(disk.Missing)
	default:
		return e.State != stowage.EntryPending || e.Reason != ""
	}
}

// untaint removes one taint, if the node has it, and nothing else.
func (p *Provisioner) untaint(ctx context.Context, node *corev1.Node, key string) error {
	kept := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == key })
	if len(kept) == len(node.Spec.Taints) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": kept},
	})
	if err != nil {
		return fmt.Errorf("patch node %s: %w", p.Node, err)
	}
	if _, err := p.Client.CoreV1().Nodes().Patch(ctx, p.Node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch node %s: %w", p.Node, err)
	}
	klog.FromContext(ctx).V(2).Info("Took the startup taint off the node", logkeys.Node, klog.KRef("", p.Node), "taint", key)
	return nil
}
