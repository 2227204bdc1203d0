// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localprovisioner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/logkeys"
)

// removeTaint takes the startup taint off the node, once everything that was found is
// published or known not to be: until then pods would go to nodes whose volumes are
// already known.
func (a *Agent) removeTaint(ctx context.Context) error {
	conf := a.current()
	if !conf.RemoveNodeNotReadyTaint || a.untainted.Load() || !a.settled() {
		return nil
	}
	if err := a.untaint(ctx, conf.NodeNotReadyTaintKey); err != nil {
		return fmt.Errorf("take the startup taint off: %w", err)
	}
	a.untainted.Store(true)
	return nil
}

// settled says whether every disk that was found has been decided about.
func (a *Agent) settled() bool {
	if a.Ready("") != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for path, fact := range a.sight.facts {
		if fact.Problem == nil && !a.told.decidedAbout(path) {
			return false
		}
	}
	return true
}

// decidedAbout says whether a slot is past being published for the first time.
func (t *told) decidedAbout(path string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[path]
	return e != nil && (e.State != stowage.EntryPending || e.Reason != "")
}

// untaint removes one taint, if the node has it, and nothing else.
func (a *Agent) untaint(ctx context.Context, key string) error {
	node, err := a.Client.CoreV1().Nodes().Get(ctx, a.Node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", a.Node, err)
	}
	kept := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == key })
	if len(kept) == len(node.Spec.Taints) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": kept},
	})
	if err != nil {
		return fmt.Errorf("patch node %s: %w", a.Node, err)
	}
	if _, err := a.Client.CoreV1().Nodes().Patch(ctx, a.Node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch node %s: %w", a.Node, err)
	}
	klog.FromContext(ctx).V(2).Info("Took the startup taint off the node", logkeys.Node, klog.KRef("", a.Node), "taint", key)
	return nil
}
