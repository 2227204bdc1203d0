// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/node"
)

// version is one version of the components.
type version struct {
	provisioner, controller string // binaries
	manifests               string // folder
	newer                   bool   // than the other one
}

// TestUpgrade exchanges manifests, controller and provisioner, in the order of docs/operate.md, for
// those of an earlier commit and back, while a Job cleans a disk, a pod's volume has data and another
// volume is free: the Job that the other version requested and created is accepted, records
// and volumes are kept, and nothing that is in use is cleaned.
func TestUpgrade(t *testing.T) {
	campaign.Begin(t)
	if !campaign.Scale(false, true) {
		t.Skip("builds two commands of an earlier commit: make soak RUN=cleaningjobs.TestUpgrade")
	}
	folder := t.TempDir()
	current := version{provisioner: provisionerBinary, controller: controller, manifests: "../../../manifests", newer: true}
	earlier := version{provisioner: buildEarlier(t, "provisioner"), controller: buildEarlier(t, "controller"), manifests: filepath.Join(folder, "manifests")}
	if err := cluster.EarlierManifests(t.Context(), folder); errors.Is(err, cluster.ErrNoCommit) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Run("upgrade", func(t *testing.T) { exchange(t, earlier, current) })
	t.Run("downgrade", func(t *testing.T) { exchange(t, current, earlier) })
	t.Run("upgrade again", func(t *testing.T) { exchange(t, earlier, current) }) // leaves this tree's version
}

// buildEarlier builds a command of the earlier commit. A clone without history skips the test.
func buildEarlier(t *testing.T, command string) string {
	t.Helper()
	path, err := cluster.BuildEarlier(t.Context(), cluster.BuildOptions{Progress: t.Output()}, "stowage.dev/stowage/cmd/"+command)
	if errors.Is(err, cluster.ErrNoCommit) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// exchange replaces the components while they have work in flight.
func exchange(t *testing.T, from, to version) {
	n := newNodeAlone(t)
	from.apply(t, n)
	runController(t, n, from.controller)
	n.Binary = from.provisioner
	finish := slow(t, n)
	k := startKubelet(t, n)
	n.Tmpfs("used", "1m")
	n.Tmpfs("free", "1m")
	dirty := begun(t, n)
	used, free := n.Claim(n.Files, "used"), n.WaitPhase(n.Files, "free", corev1.VolumeAvailable)
	n.Write("used", "a", "data of a pod")
	k.next()
	waitAnswer(t, n, "answered with a Job", isRunning)

	if to.newer {
		to.apply(t, n)
	}
	runController(t, n, to.controller)
	n.Stop()
	n.Binary = to.provisioner
	n.Start()
	if !to.newer {
		to.apply(t, n)
	}
	finish()
	cleaned(t, n, dirty)
	if names := made(t, n); len(names) != 1 {
		t.Errorf("the Jobs are %q, want the one that was running", names)
	}
	for name, before := range map[string]*corev1.PersistentVolume{"used": used, "free": free} {
		if now := n.Volume(n.Files, name); now == nil || now.UID != before.UID || now.Status.Phase != before.Status.Phase {
			t.Errorf("volume of %s: %v, want %s in phase %s", name, now, before.Name, before.Status.Phase)
		}
	}
	if text, err := os.ReadFile(filepath.Join(n.PathOf(n.Files, "used"), "a")); err != nil || string(text) != "data of a pod" {
		t.Errorf("the volume in use has %q: %v", text, err)
	}

	// What the other version published is cleaned like any volume.
	n.Release(used)
	k.next()
	finish()
	n.WaitRepublished(n.Files, "used", used)
	if names := n.Names("used"); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
}

// apply applies the kind of reports, rights and policies. What the manifests configure stays the
// test's.
func (v version) apply(t *testing.T, n *node.Node) {
	t.Helper()
	client, err := dynamic.NewForConfig(n.Env.Cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"crd/stowage.dev_*.yaml", "provisioner/rbac.yaml", "provisioner/policy-*.yaml", "controller/base/rbac.yaml", "controller/cleaning-jobs.yaml"} {
		files, err := filepath.Glob(filepath.Join(v.manifests, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no %s: %v", v.manifests, pattern, err)
		}
		for _, file := range files {
			if err := applyFile(n.Env.Context(), client, file); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func applyFile(ctx context.Context, client dynamic.Interface, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	objects, err := cluster.Objects(data)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	for _, object := range objects {
		if err := cluster.Apply(ctx, client, object); err != nil {
			return err
		}
	}
	return nil
}

// runController replaces the running controller.
func runController(t *testing.T, n *node.Node, binary string) {
	t.Helper()
	if err := running.Stop(n.Env.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	if running, err = startController(n.Env.Cluster, binary); err != nil {
		t.Fatal(err)
	}
}
