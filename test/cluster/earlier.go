// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// Earlier is the commit that upgrade tests begin with and go back to. Components of it run
// beside those of this tree.
const Earlier = "cb26a981b990238a54d01d2291cf5605e7d1fb19"

// ErrNoCommit is returned by BuildEarlier and EarlierManifests in a clone without the history.
var ErrNoCommit = errors.New("this clone does not have the commit: run git fetch --unshallow")

// BuildEarlier builds a command of this repository, such as "stowage.dev/stowage/cmd/scheduler",
// from its sources at commit Earlier, and returns the binary's path. It stays in the cache
// folder.
func BuildEarlier(ctx context.Context, o BuildOptions, pkg string) (_ string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("build %s of commit %.10s: %w", pkg, Earlier, err)
		}
	}()
	src, err := findSources()
	if err != nil {
		return "", err
	}
	o.Progress = cmp.Or(o.Progress, io.Discard)
	dir := filepath.Join(filepath.Dir(src.cache), "commands-"+Earlier[:keyLength])
	unlock, err := lockFolder(ctx, dir, func() {})
	if err != nil {
		return "", err
	}
	defer unlock()
	name := path.Base(pkg)
	out := filepath.Join(dir, name)
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	if err := src.hasEarlier(ctx); err != nil {
		return "", err
	}
	sources := filepath.Join(dir, "sources")
	if err := os.RemoveAll(sources); err != nil { // of a build that was killed
		return "", err
	}
	defer os.RemoveAll(sources)
	// A worktree would leave its name in the clone; a clone of the clone leaves nothing.
	for _, args := range [][]string{
		{"clone", "-q", "--shared", "--no-checkout", src.root, sources},
		{"-C", sources, "checkout", "-q", Earlier},
	} {
		if text, err := exec.CommandContext(ctx, "git", args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("check out: %w: %s", err, text)
		}
	}
	return out, buildJob{module: sources, folder: dir, targets: []target{{name, pkg, &out}}, progress: o.Progress}.build(ctx)
}

// EarlierManifests writes the folder manifests of commit Earlier into a folder, which exists.
func EarlierManifests(ctx context.Context, dir string) error {
	src, err := findSources()
	if err != nil {
		return err
	}
	if err := src.hasEarlier(ctx); err != nil {
		return err
	}
	const extract = `set -o pipefail; git -C "$1" archive "$2" manifests | tar -x -C "$3"`
	if text, err := exec.CommandContext(ctx, "bash", "-c", extract, "bash", src.root, Earlier, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("extract the manifests of commit %.10s: %w: %s", Earlier, err, text)
	}
	return nil
}

func (s sources) hasEarlier(ctx context.Context) error {
	if err := exec.CommandContext(ctx, "git", "-C", s.root, "cat-file", "-e", Earlier+"^{commit}").Run(); err != nil {
		return errors.Join(ErrNoCommit, err)
	}
	return nil
}
