// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// candidates are the nodes of a call: their names, or the objects if the scheduler's
// configuration has nodeCacheCapable: false.
type candidates struct {
	e     *Extender
	names []string
	nodes []v1.Node
	full  bool
	list  *[]string // the pooled list that names refers to
}

// checkEvery is how many nodes are evaluated between checks of the context.
const checkEvery = 64

func (e *Extender) candidates(args *extenderv1.ExtenderArgs) candidates {
	c := candidates{e: e}
	switch {
	case args.NodeNames != nil:
		c.names, c.list = *args.NodeNames, args.NodeNames
	case args.Nodes != nil:
		c.nodes, c.full = args.Nodes.Items, true
	}
	return c
}

// release returns the list of names to its pool. It must not be used afterwards.
func (c candidates) release() { nameLists.put(c.list) }

func (c candidates) len() int { return len(c.names) + len(c.nodes) }

// each calls f with each node, nil if unknown. It returns the cause if ctx ends first.
func (c candidates) each(ctx context.Context, f func(i int, name string, node *v1.Node)) error {
	var known [checkEvery]*v1.Node
	for i := range c.len() {
		at := i % checkEvery
		if at == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.full {
			f(i, c.nodes[i].Name, &c.nodes[i])
			continue
		}
		if at == 0 {
			next := c.names[i:min(i+checkEvery, len(c.names))]
			c.e.cache.NodesNamed(next, known[:len(next)])
		}
		f(i, c.names[i], known[at])
	}
	return nil
}

// errNoPod means that a call has no pod.
var errNoPod = malformed(errors.New("it has no Pod"))
