// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestMap: docs/README.md has every page beside it, and the others can be reached from it.
func TestMap(t *testing.T) {
	t.Parallel()
	const top = "docs/README.md"
	all := pages(t)
	distance := map[string]int{top: 0}
	for next := []string{top}; len(next) > 0; next = next[1:] {
		for _, found := range link.FindAllStringSubmatch(all[next[0]], -1) {
			name := filepath.Join(filepath.Dir(next[0]), found[1])
			if _, known := distance[name]; !known {
				distance[name] = distance[next[0]] + 1
				next = append(next, name)
			}
		}
	}
	for name := range all {
		switch far, reached := distance[name]; {
		case !reached:
			t.Errorf("no links lead from %s to %s", top, name)
		case far > 1 && filepath.Dir(name) == filepath.Dir(top):
			t.Errorf("%s does not lead to %s", top, name)
		}
	}
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	marks   = regexp.MustCompile("[^a-z0-9 _-]+")
	anchor  = regexp.MustCompile(`\]\(([^)#:]*)#([^)]+)\)`)
)

// TestAnchors: where a page links to a part of a page, the page has that part.
func TestAnchors(t *testing.T) {
	t.Parallel()
	all := pages(t)
	parts := map[string]map[string]bool{}
	for name, text := range all {
		parts[name] = map[string]bool{}
		for _, found := range heading.FindAllStringSubmatch(text, -1) {
			plain := marks.ReplaceAllString(strings.ToLower(found[1]), "")
			parts[name][strings.ReplaceAll(plain, " ", "-")] = true
		}
	}
	for name, text := range all {
		for _, found := range anchor.FindAllStringSubmatch(text, -1) {
			target := name
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(name), found[1])
			}
			if of, ok := parts[target]; ok && !of[found[2]] {
				t.Errorf("%s links to %s#%s, and there is no such heading", name, found[1], found[2])
			}
		}
	}
}

// TestCompatibility: the page names the versions that this repository builds with.
func TestCompatibility(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/compatibility.md")
	required := func(file, pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(read(t, file))
		if found == nil {
			t.Fatalf("%s has nothing like %s", file, pattern)
		}
		return found[1]
	}
	kubernetes := required("go.mod", `k8s\.io/kubernetes v(\S+)`)
	if !strings.Contains(page, "| "+kubernetes+" |") {
		t.Errorf("docs/compatibility.md has no row for %s of go.mod", kubernetes)
	}
	controlplanes, err := filepath.Glob(filepath.Join(root, "hack/controlplane/*.*"))
	if err != nil || len(controlplanes) < 3 {
		t.Fatalf("control planes in %v, %v; want at least three", controlplanes, err)
	}
	for _, dir := range controlplanes {
		file := "hack/controlplane/" + filepath.Base(dir) + "/go.mod"
		row := "| " + required(file, `k8s\.io/kubernetes v(\S+)`) + " | " + required(file, `go\.etcd\.io/etcd/server/v3 v(\S+)`) + " |"
		if !strings.Contains(page, row) {
			t.Errorf("docs/compatibility.md has no row %q for %s", row, file)
		}
	}
	chart := read(t, "manifests/charts/stowage/Chart.yaml")
	for _, part := range []string{"scheduler", "extender", "provisioner", "controller"} {
		found := regexp.MustCompile(`stowage\.dev/` + part + `-kube-version: "(.+)"`).FindStringSubmatch(chart)
		if found == nil {
			t.Fatalf("Chart.yaml does not say which API servers the %s is for", part)
		}
		if row := "| " + part + " | " + strings.ReplaceAll(found[1], ".0-0", "") + " |"; !strings.Contains(page, row) {
			t.Errorf("docs/compatibility.md has no row %q, as Chart.yaml says", row)
		}
	}
	if found := regexp.MustCompile(`(?m)^go (\S+)`).FindStringSubmatch(read(t, "go.mod")); found == nil || !strings.Contains(page, "requires "+found[1]) {
		t.Errorf("docs/compatibility.md does not state that go.mod requires Go %q", found)
	}
}

var inRepository = regexp.MustCompile("`((?:manifests|test|pkg|cmd|hack|docs)/[A-Za-z0-9._/-]+)`")

// TestNamedFilesExist: files and folders of the repository that pages name are there.
func TestNamedFilesExist(t *testing.T) {
	t.Parallel()
	for name, text := range pages(t) {
		for _, found := range inRepository.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, found[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", name, found[1])
			}
		}
	}
}

var (
	figures = regexp.MustCompile(`Measured \(docs/([a-z-]+\.md)\):([^\n]*(?:\n +# [^\n]*)*)`)
	mebi    = regexp.MustCompile(`([0-9]+) MiB`)
	onPage  = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?) MiB`)
)

// TestMemoryFigures: what workloads say was measured of their memory is on the page that they
// name.
func TestMemoryFigures(t *testing.T) {
	t.Parallel()
	for _, manifest := range []string{
		"manifests/scheduler/second/deployment.yaml", "manifests/extender/base/deployment.yaml",
		"manifests/provisioner/daemonset.yaml", "manifests/controller/base/deployment.yaml",
	} {
		comment := figures.FindStringSubmatch(read(t, manifest))
		if comment == nil {
			t.Errorf("%s does not state what was measured, and on which page that is", manifest)
			continue
		}
		measured := map[string]bool{}
		for _, found := range onPage.FindAllStringSubmatch(read(t, "docs/"+comment[1]), -1) {
			number, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			measured[strconv.Itoa(int(math.Round(number)))] = true
		}
		said := mebi.FindAllStringSubmatch(comment[2], -1)
		if len(said) == 0 {
			t.Errorf("%s has no figure of memory", manifest)
		}
		for _, figure := range said {
			if !measured[figure[1]] {
				t.Errorf("%s: %s MiB is not on docs/%s", manifest, figure[1], comment[1])
			}
		}
	}
}
