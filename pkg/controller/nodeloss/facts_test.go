// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	controller "stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
)

// TestNodeState: the states of a node.
func TestNodeState(t *testing.T) {
	t.Parallel()
	node := func(ready corev1.ConditionStatus, taints ...string) *corev1.Node {
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
		for _, key := range taints {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key})
		}
		return n
	}
	const taint = corev1.TaintNodeOutOfService
	for name, tc := range map[string]struct {
		node  *corev1.Node
		taint controller.OutOfService
		want  rules.Node
	}{
		"it does not exist":                    {nil, controller.OutOfServiceLost, rules.Gone},
		"it works":                             {node(corev1.ConditionTrue), controller.OutOfServiceLost, rules.Ready},
		"it does not":                          {node(corev1.ConditionFalse, "other"), controller.OutOfServiceLost, rules.NotReady},
		"its state is unknown":                 {node(corev1.ConditionUnknown), controller.OutOfServiceLost, rules.NotReady},
		"its state is unknown, with the taint": {node(corev1.ConditionUnknown, taint), controller.OutOfServiceLost, rules.OutOfService},
		"the same, where the taint is ignored": {node(corev1.ConditionUnknown, taint), controller.OutOfServiceIgnore, rules.NotReady},
		"it works, and the taint is left over": {node(corev1.ConditionTrue, taint), controller.OutOfServiceLost, rules.Ready},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Controller{Config: Config{Settings: controller.NodeLoss{OutOfService: tc.taint}}}
			if got := c.nodeState(tc.node); got != tc.want {
				t.Errorf("node is %s, want %s", got, tc.want)
			}
		})
	}
}
