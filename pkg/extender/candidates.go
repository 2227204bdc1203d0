// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// candidates are the nodes of a call: their names, or the objects themselves
// where the scheduler's configuration says nodeCacheCapable: false.
type candidates struct {
	e     *Extender
	names []string
	nodes []v1.Node
	full  bool
}

// checkEvery is how many nodes are asked about between two looks at whether the
// call has ended.
const checkEvery = 64

func (e *Extender) candidates(args *extenderv1.ExtenderArgs) candidates {
	c := candidates{e: e}
	switch {
	case args.NodeNames != nil:
		c.names = *args.NodeNames
	case args.Nodes != nil:
		c.nodes, c.full = args.Nodes.Items, true
	}
	return c
}

func (c candidates) len() int { return len(c.names) + len(c.nodes) }

// each calls f with each node, nil for one that is not known, and returns the
// cause if ctx ends before.
func (c candidates) each(ctx context.Context, f func(i int, name string, node *v1.Node)) error {
	for i := range c.len() {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.full {
			f(i, c.nodes[i].Name, &c.nodes[i])
			continue
		}
		node, err := c.e.nodes.Get(c.names[i])
		if err != nil {
			node = nil // listers of informers fail in no other way
		}
		f(i, c.names[i], node)
	}
	return nil
}

// errNoPod says that a call is about no pod.
var errNoPod = &malformedError{errors.New("it has no Pod")}
