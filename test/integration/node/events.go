// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitEvent waits for an event about an object that has no namespace, such
// as a volume or the node, with this reason and all the parts in its message.
func (n *Node) WaitEvent(object, reason string, parts ...string) *corev1.Event {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.Env.Context(), n.Env.Timeout)
	defer cancel()
	watching, err := n.Env.Client.CoreV1().Events(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{
		FieldSelector: fmt.Sprintf("involvedObject.name=%s,reason=%s", object, reason),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	defer watching.Stop()
	var seen []string
	for change := range watching.ResultChan() {
		event, ok := change.Object.(*corev1.Event)
		if !ok {
			continue
		}
		seen = append(seen, event.Message)
		if hasAll(event.Message, parts) {
			return event
		}
	}
	n.t.Fatalf("waited %s for the event %s of %s with %q; there were %q", n.Env.Timeout, reason, object, parts, seen)
	return nil
}

func hasAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
