// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKubernetesVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		goMod string
		want  []string
	}{
		"in a block":        {goMod: "require (\n\tk8s.io/api v0.1.0\n\tk8s.io/kubernetes v1.37.1\n)\n", want: []string{"v1.37.1", "1", "37"}},
		"with a comment":    {goMod: "require (\n\tk8s.io/kubernetes v1.2.3 // indirect\n)\n", want: []string{"v1.2.3", "1", "2"}},
		"on a line":         {goMod: "require k8s.io/kubernetes v2.0.0-rc.1\n", want: []string{"v2.0.0-rc.1", "2", "0"}},
		"not a replacement": {goMod: "replace k8s.io/kubernetes => k8s.io/kubernetes v1.2.3\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			if m := kubernetesVersion.FindStringSubmatch(tc.goMod); m != nil {
				got = m[1:]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestModulesAgree: the control plane is of the version that the product is
// built for.
func TestModulesAgree(t *testing.T) {
	t.Parallel()
	src, err := findSources()
	if err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile(filepath.Join(src.root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	product := kubernetesVersion.FindSubmatch(goMod)
	if product == nil {
		t.Fatal("the product's go.mod does not require k8s.io/kubernetes")
	}
	if got := string(product[1]); got != src.kubernetes {
		t.Errorf("the product requires Kubernetes %s, %s has %s", got, controlplaneDir, src.kubernetes)
	}
}

func TestBuildFindsFinishedBinaries(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(CacheEnv, cache)
	src, err := findSources()
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(src.cache) != cache || !strings.HasPrefix(filepath.Base(src.cache), src.kubernetes+"-") {
		t.Errorf("binaries go to %s, want a folder of %s named after %s", src.cache, cache, src.kubernetes)
	}
	var none Binaries
	if missing := src.locate(none.targets()); len(missing) != 5 {
		t.Errorf("%d binaries are missing from an empty cache, want 5", len(missing))
	}
	if err := os.MkdirAll(src.cache, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{none.Etcd, none.APIServer, none.ControllerManager, none.Scheduler, none.Kwok} {
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var progress bytes.Buffer
	got, err := Build(t.Context(), BuildOptions{Progress: &progress})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(none, got); diff != "" {
		t.Errorf("binaries (-want +got):\n%s", diff)
	}
	if err := got.check(); err != nil {
		t.Error(err)
	}
	if progress.Len() > 0 {
		t.Errorf("nothing had to be built, but progress is:\n%s", &progress)
	}
}

// TestBuildCommand builds a small program with an empty cache, and again after a build that was
// killed.
func TestBuildCommand(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	const program = productModule + "/hack/requirements"
	built, err := BuildCommand(t.Context(), BuildOptions{}, program)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(built)
	if err := errors.Join(os.Remove(built), os.Mkdir(filepath.Join(dir, unfinished), 0o755)); err != nil {
		t.Fatal(err)
	}
	again, err := BuildCommand(t.Context(), BuildOptions{}, program)
	if err != nil || again != built {
		t.Errorf("built %s again, %v; want %s", again, err, built)
	}
	out, err := exec.CommandContext(t.Context(), built).CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "usage: requirements") {
		t.Errorf("the built binary printed %q, %v", out, err)
	}
	if _, err := BuildCommand(t.Context(), BuildOptions{}, program+"/missing"); err == nil || !strings.Contains(err.Error(), program+"/missing") {
		t.Errorf("building a missing package: %v, want an error that names it", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("in the cache: %v, %v; want the binary and the lock alone", left, err)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "folder")
	never := func() { t.Error("waits although the lock is free") }
	unlock, err := lockFolder(t.Context(), path, never)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lockFolder(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a second lock: %v, want it to wait until its context ends", err)
	}
	unlock, err = lockFolder(t.Context(), path, unlock)
	if err != nil {
		t.Fatalf("once the first is unlocked: %v", err)
	}
	unlock()
}
