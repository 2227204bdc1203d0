// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// KubeEnv names the environment variable that selects the minor version of Kubernetes to build,
// such as 1.36; empty: that of the product's go.mod.
const KubeEnv = "STOWAGE_KUBE"

// The product's module, and the folder of its repository that has a module for each minor version of
// Kubernetes, and one for kwok.
const (
	productModule    = "stowage.dev/stowage"
	controlplanesDir = "hack/controlplane"
)

// keyLength is how many hexadecimal digits of a hash make a cache key.
const keyLength = 12

var (
	kubernetesVersion = regexp.MustCompile(`(?m)^\s*(?:require\s+)?k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)`)
	kwokVersion       = regexp.MustCompile(`(?m)^\s*(?:require\s+)?sigs\.k8s\.io/kwok (v\S+)`)
)

// sources are the product's sources and the selected version of Kubernetes.
type sources struct {
	root    string // folder of the product's module
	cache   string // folder that holds one folder per version
	minor   string // such as 1.37
	modFile string // the product's go.mod for that version, in root
}

func findSources() (s sources, err error) {
	if s.root, err = findRoot(); err != nil {
		return sources{}, err
	}
	if s.cache, err = cacheRoot(); err != nil {
		return sources{}, err
	}
	goMod, err := os.ReadFile(filepath.Join(s.root, "go.mod"))
	if err != nil {
		return sources{}, err
	}
	required := kubernetesVersion.FindSubmatch(goMod)
	if required == nil {
		return sources{}, errors.New("go.mod does not require k8s.io/kubernetes")
	}
	usual := fmt.Sprintf("%s.%s", required[2], required[3])
	s.minor, s.modFile = cmp.Or(os.Getenv(KubeEnv), usual), "go.mod"
	if s.minor != usual {
		s.modFile = "go-" + s.minor + ".mod"
	}
	minors, err := filepath.Glob(filepath.Join(s.controlplane("*.*"), "go.mod"))
	if err != nil {
		return sources{}, err
	}
	for i, file := range minors {
		minors[i] = filepath.Base(filepath.Dir(file))
	}
	if !slices.Contains(minors, s.minor) {
		return sources{}, fmt.Errorf("no control plane of Kubernetes %q: set %s to one of %s", s.minor, KubeEnv, strings.Join(minors, ", "))
	}
	return s, nil
}

// controlplane is the folder of a nested module.
func (s sources) controlplane(name string) string {
	return filepath.Join(s.root, filepath.FromSlash(controlplanesDir), name)
}

// module is a nested module whose commands are built.
type module struct {
	product string // what progress calls it
	dir     string
	version string // of the product, such as v1.37.1
	ldflags string // version stamps and stripping
	cache   string // folder of the finished binaries
}

// kubernetes is the module of etcd and of all programs of Kubernetes.
func (s sources) kubernetes() (module, error) {
	const stamps = "-X k8s.io/component-base/version.gitVersion=$1 -X k8s.io/component-base/version.gitMajor=$2 -X k8s.io/component-base/version.gitMinor=$3"
	return s.module(module{product: "Kubernetes", dir: s.controlplane(s.minor), ldflags: "-s -w " + stamps, cache: "$1"}, kubernetesVersion)
}

// kwok is the module of kwok, the same for all versions of Kubernetes.
func (s sources) kwok() (module, error) {
	return s.module(module{product: "kwok", dir: s.controlplane("kwok"), ldflags: "-s -w", cache: "kwok-$1"}, kwokVersion)
}

// module completes a module with what pattern finds in its go.mod, of which $1 is the version.
func (s sources) module(m module, pattern *regexp.Regexp) (module, error) {
	goMod, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
	if err != nil {
		return module{}, err
	}
	goSum, err := os.ReadFile(filepath.Join(m.dir, "go.sum"))
	if err != nil {
		return module{}, err
	}
	found := pattern.FindSubmatchIndex(goMod)
	if found == nil {
		return module{}, fmt.Errorf("%s/go.mod does not require %s", m.dir, m.product)
	}
	expand := func(template string) string { return string(pattern.Expand(nil, []byte(template), goMod, found)) }
	m.version, m.ldflags = expand("$1"), expand(m.ldflags)
	toolchain := fmt.Appendf(nil, "%s\n%s\n%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	m.cache = filepath.Join(s.cache, expand(m.cache)+"-"+hash(goMod, goSum, []byte(m.ldflags), toolchain))
	return m, nil
}

// with returns the module with the folder of binaries that are built with further arguments.
func (m module) with(args []string) module {
	if len(args) > 0 {
		m.cache += "-" + hash([]byte(strings.Join(args, "\x00")))
	}
	return m
}

// locate sets the paths of all targets and returns those whose binary is missing.
func (m module) locate(targets []target) []target {
	var missing []target
	for _, t := range targets {
		*t.path = filepath.Join(m.cache, t.name)
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
