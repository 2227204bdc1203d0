// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// The product's module, the module of the control plane inside its repository,
// and where the supervisor's sources are.
const (
	productModule     = "stowage.dev/stowage"
	controlplaneDir   = "hack/controlplane"
	supervisorDir     = "test/cluster/internal/supervise"
	supervisorPackage = productModule + "/" + supervisorDir + "/supervisor"
)

// keyLength is how many hexadecimal digits of a hash make a cache key.
const keyLength = 12

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*(?:require\s+)?k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)`)

// sources are the sources and destination of the build.
type sources struct {
	root          string // folder of the product's module
	controlplane  string // folder of the nested module
	kubernetes    string // version, such as v1.37.1
	ldflags       string // version stamps and stripping
	cache         string // folder of the finished binaries
	supervisorKey string // hash of the supervisor's sources
}

func findSources(ctx context.Context) (sources, error) {
	root, err := findRoot()
	if err != nil {
		return sources{}, err
	}
	s := sources{root: root, controlplane: filepath.Join(root, filepath.FromSlash(controlplaneDir))}
	goMod, err := os.ReadFile(filepath.Join(s.controlplane, "go.mod"))
	if err != nil {
		return sources{}, err
	}
	goSum, err := os.ReadFile(filepath.Join(s.controlplane, "go.sum"))
	if err != nil {
		return sources{}, err
	}
	version := kubernetesVersion.FindSubmatch(goMod)
	if version == nil {
		return sources{}, fmt.Errorf("%s/go.mod does not require k8s.io/kubernetes", controlplaneDir)
	}
	s.kubernetes = string(version[1])
	s.ldflags = versionFlags(s.kubernetes, string(version[2]), string(version[3]))
	toolchain, err := runGo(ctx, s.controlplane, "env", "GOVERSION", "GOHOSTOS", "GOHOSTARCH")
	if err != nil {
		return sources{}, err
	}
	if s.supervisorKey, err = hashFiles(filepath.Join(root, filepath.FromSlash(supervisorDir))); err != nil {
		return sources{}, err
	}
	cache, err := cacheRoot()
	if err != nil {
		return sources{}, err
	}
	s.cache = filepath.Join(cache, s.kubernetes+"-"+hash(goMod, goSum, []byte(s.ldflags), toolchain))
	return s, nil
}

// versionFlags makes binaries report the version they were built from.
func versionFlags(version, major, minor string) string {
	const pkg = "k8s.io/component-base/version"
	return fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, version, major, minor)
}

// findRoot walks up from the current folder, then from this source file, to the
// product's go.mod.
func findRoot() (string, error) {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, dir := range starts {
		for {
			if isRoot(dir) {
				return dir, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", errors.New("no clone of " + productModule + " at or above the current folder: run this inside one")
}

func isRoot(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	return strings.TrimSpace(string(first)) == "module "+productModule
}

// hashFiles hashes the names and contents of all Go files at and below dir.
func hashFiles(dir string) (string, error) {
	var parts [][]byte
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		parts = append(parts, []byte(d.Name()), data)
		return err
	})
	return hash(parts...), err
}

func hash(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d\n", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:keyLength]
}

// runGo runs the go command in dir and returns its standard output.
func runGo(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := goCommand(ctx, dir, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, stderr.Bytes())
	}
	return out, nil
}

// goCommand removes variables from the environment that change the build:
// cross-compilation, workspaces and flags such as -mod=vendor.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GOOS", "GOARCH", "GOFLAGS", "GOWORK", "PWD"}, name)
	})
	cmd.Env = append(cmd.Env, "GOWORK=off", "PWD="+dir)
	return cmd
}
