// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehosts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNeeded(t *testing.T) {
	t.Parallel()
	// Nodes by name, with the hostnames of their labels.
	for name, test := range map[string]struct {
		nodes, want map[string]string
	}{
		"a hostname that is the node's name needs no key": {map[string]string{"a": "a"}, map[string]string{}},
		"another one needs one":                           {map[string]string{"a": "host-1", "b": "b"}, map[string]string{"host.a": "host-1"}},
		"a node without the label has none":               {map[string]string{"a": ""}, map[string]string{}},
		"the name of another node is not believed":        {map[string]string{"a": "b", "b": "b"}, map[string]string{}},
		"nor is it where that node has another hostname":  {map[string]string{"a": "b", "b": "host-2"}, map[string]string{"host.b": "host-2"}},
		"of two nodes with one hostname none is believed": {map[string]string{"a": "host", "b": "host", "c": "host-3"}, map[string]string{"host.c": "host-3"}},
		"a name that no key can have is left out":         {map[string]string{strings.Repeat("a", 250): "host-1"}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var nodes []*corev1.Node
			for name, host := range test.nodes {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
				if host != "" {
					node.Labels = map[string]string{corev1.LabelHostname: host}
				}
				nodes = append(nodes, node)
			}
			if diff := cmp.Diff(test.want, needed(nodes)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
