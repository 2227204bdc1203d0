// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
)

// The product's module, and the module of the control plane inside its repository.
const (
	productModule   = "stowage.dev/stowage"
	controlplaneDir = "hack/controlplane"
)

// keyLength is how many hexadecimal digits of a hash make a cache key.
const keyLength = 12

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*(?:require\s+)?k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)`)

// sources are the sources and destination of the build.
type sources struct {
	root         string // folder of the product's module
	controlplane string // folder of the nested module
	kubernetes   string // version, such as v1.37.1
	ldflags      string // version stamps and stripping
	cache        string // folder of the finished binaries
}

func findSources() (sources, error) {
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
	s.ldflags = fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
		"k8s.io/component-base/version", version[1], version[2], version[3])
	cache, err := cacheRoot()
	if err != nil {
		return sources{}, err
	}
	toolchain := fmt.Appendf(nil, "%s\n%s\n%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	s.cache = filepath.Join(cache, s.kubernetes+"-"+hash(goMod, goSum, []byte(s.ldflags), toolchain))
	return s, nil
}

// locate sets the paths of all targets and returns those whose binary is missing.
func (s sources) locate(targets []target) []target {
	var missing []target
	for _, t := range targets {
		*t.path = filepath.Join(s.cache, t.name)
		if _, err := os.Stat(*t.path); err != nil {
			missing = append(missing, t)
		}
	}
	return missing
}

// cacheRoot is the folder that holds one folder per version.
func cacheRoot() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder to keep binaries in: set $%s (%w)", CacheEnv, err)
	}
	return filepath.Join(dir, "stowage", "controlplane"), nil
}

// findRoot walks up from the current folder to the product's go.mod.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte("module "+productModule+"\n")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no clone of " + productModule + " at or above the current folder: run this inside one")
		}
	}
}

func hash(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d\n", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:keyLength]
}
