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
	src, err := findSources(t.Context())
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
	src, err := findSources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(src.cache) != cache || !strings.HasPrefix(filepath.Base(src.cache), src.kubernetes+"-") {
		t.Errorf("binaries go to %s, want a folder of %s named after %s", src.cache, cache, src.kubernetes)
	}
	var none Binaries
	if missing := none.locate(src); len(missing) != 6 {
		t.Errorf("%d binaries are missing from an empty cache, want 6", len(missing))
	}
	if err := os.MkdirAll(src.cache, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{none.Etcd, none.APIServer, none.ControllerManager, none.Scheduler, none.Kwok, none.Supervisor} {
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

// TestBuildOne builds a small program with an empty cache.
func TestBuildOne(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	src, err := findSources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(src.cache, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(src.cache, unfinishedPrefix+"killed"), 0o755); err != nil {
		t.Fatal(err)
	}
	var b Binaries
	missing := b.locate(src)
	supervisor := missing[len(missing)-1]
	if err := buildAll(t.Context(), src, []target{supervisor}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), b.Supervisor).CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "usage: supervisor") {
		t.Errorf("the built binary printed %q, %v", out, err)
	}
	left, err := os.ReadDir(src.cache)
	if err != nil || len(left) != 1 {
		t.Errorf("in the cache: %v, %v; want the binary alone", left, err)
	}

	bad := supervisor
	bad.pkg += "/missing"
	bad.path = new(string)
	*bad.path = filepath.Join(src.cache, "bad")
	if err := buildAll(t.Context(), src, []target{bad}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), bad.pkg) {
		t.Errorf("building a missing package: %v, want an error that names it", err)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	never := func() { t.Error("waits although the lock is free") }
	unlock, err := lockFile(t.Context(), path, never)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lockFile(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a second lock: %v, want it to wait until its context ends", err)
	}
	unlock, err = lockFile(t.Context(), path, unlock)
	if err != nil {
		t.Fatalf("once the first is unlocked: %v", err)
	}
	unlock()
}
