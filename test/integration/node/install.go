// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"os"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/provisioners"
)

// binary is the provisioner, set by Install before any test runs.
var binary string

// Install builds the provisioner and applies its manifests, for fixture.Main.
func Install(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	if binary, err = provisioners.Build(ctx, os.Stderr); err != nil {
		return nil, err
	}
	return func() {}, Apply(ctx, c)
}

// Apply applies the provisioner's manifests.
func Apply(ctx context.Context, c *cluster.Cluster) error { return provisioners.Apply(ctx, c) }

// AllowClass lets provisioners create volumes of a class. All tests share the ConfigMap, so
// classes are only added.
func (n *Node) AllowClass(class string) {
	n.t.Helper()
	if err := provisioners.AllowClass(n.Env.Context(), n.Env.Client, class); err != nil {
		n.t.Fatal(err)
	}
}
