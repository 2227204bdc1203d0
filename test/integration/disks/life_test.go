// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// newNode is a node in the test's Env.
func newNode(t *testing.T) *node.Node {
	t.Helper()
	t.Parallel()
	return node.New(t, fixture.New(t), "a")
}

// secret is the content of the files of a volume's former pods.
const secret = "of the first user"

// used claims the volume of a slot of class Files, writes a file as its pod would, and
// returns the volume.
func used(n *node.Node, name string) *corev1.PersistentVolume {
	volume := n.Claim(n.Files, name)
	n.Write(name, "secret", secret)
	return volume
}

// emptied fails the test unless a slot of class Files is empty.
func emptied(t *testing.T, n *node.Node, name string) {
	t.Helper()
	if names := n.Names(name); len(names) > 0 {
		t.Errorf("the volume of %s is free and holds %q", name, names)
	}
}

// untouched fails the test unless a folder still has the secret.
func untouched(t *testing.T, folder string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "secret"))
	if err != nil || string(text) != secret {
		t.Errorf("the file that was in %s holds %q: %v", folder, text, err)
	}
}

// keep writes the secret to a folder, which is created if it does not exist.
func keep(t *testing.T, folder string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "secret"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fence returns when the provisioner has finished all work that is due: another disk was
// found, published, used and cleaned meanwhile. Each fence of a node has its own name.
func fence(n *node.Node, name string) {
	name = "fence-" + name
	n.Tmpfs(name, "1M")
	volume := used(n, name)
	n.Release(volume)
	n.WaitRepublished(n.Files, name, volume)
}
