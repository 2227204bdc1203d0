// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/operatorkinds"
)

// kustomization has the checked fields of a kustomization.yaml.
type kustomization struct {
	Kind               string   `json:"kind"`
	Resources          []string `json:"resources"`
	ConfigMapGenerator []struct {
		Files []string `json:"files"`
	} `json:"configMapGenerator"`
}

// kustomizations are all kustomizations, by folder, except manifests/images, which cannot be applied.
func kustomizations(t *testing.T) map[string]kustomization {
	t.Helper()
	found := map[string]kustomization{}
	err := filepath.WalkDir(files, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, _ := filepath.Rel(files, filepath.Dir(path))
		var k kustomization
		if err = yaml.Unmarshal(data, &k); k.Kind == "Kustomization" {
			found[folder] = k
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// apart are files of no kustomization: those of processes that Kubernetes does
// not start, those that are applied singly, and the Go package of the folder.
var apart = []string{
	"images/kustomization.yaml", "controller/cleaning-jobs.yaml", "controller/bind-now.yaml", "controller/pv-binder.yaml", "controller/pav-volumes.yaml", "controller/pav-policy.yaml", "scheduler/only/config.yaml", "extender/full/scheduler.yaml", "extender/advisory/scheduler.yaml",
	"pav/examples/hello-world.yaml", "pav/examples/object-store.yaml", "pav/examples/encryption.yaml", "pav/examples/btrfs.yaml",
	"pav/examples/hello-world/pod.yaml",
	"manifests.go",
}

// TestNothingForgotten: every file is in a kustomization of its folder, or below it.
func TestNothingForgotten(t *testing.T) {
	t.Parallel()
	listed := slices.Clone(apart)
	for folder, k := range kustomizations(t) {
		listed = append(listed, filepath.Join(folder, "kustomization.yaml"))
		for _, file := range k.Resources {
			listed = append(listed, filepath.Join(folder, file))
		}
		for _, generator := range k.ConfigMapGenerator {
			for _, file := range generator.Files {
				listed = append(listed, filepath.Join(folder, file))
			}
		}
	}
	err := filepath.WalkDir(files, func(path string, entry fs.DirEntry, err error) error {
		file, _ := filepath.Rel(files, path)
		if entry.IsDir() && file == "charts" {
			return filepath.SkipDir
		}
		if err == nil && !entry.IsDir() && !slices.Contains(listed, file) {
			t.Errorf("%s is in no kustomization", file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var applied sync.Once

// install applies the default overlay and the kinds of the Prometheus operator, once, so that its
// namespace and all kinds exist.
func install(t *testing.T) {
	t.Helper()
	applied.Do(func() {
		objects := append(operatorKinds(t), installOrder(kustomize(t, "overlays/default"))...)
		for _, o := range sourceOf(t, pavController) {
			if o.GetKind() == "Namespace" {
				objects = append(objects, o)
			}
		}
		for _, o := range objects {
			if err := cluster.Apply(t.Context(), admin, o); err != nil {
				t.Error(err)
			}
		}
		for _, kind := range operatorkinds.Names {
			waitFor(t, kind+" is served", func() bool {
				plural := schema.ParseGroupResource(kind).WithVersion("v1")
				_, err := admin.Resource(plural).List(t.Context(), metav1.ListOptions{Limit: 1})
				return err == nil
			})
		}
	})
}

// operatorKinds are the definitions of the operator's kinds.
func operatorKinds(t *testing.T) []object {
	t.Helper()
	paths, err := operatorkinds.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var kinds []object
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, parse(t, string(data))...)
	}
	return kinds
}

// installOrder puts namespaces and kinds before what needs them, as kubectl does.
func installOrder(objects []object) []object {
	rank := map[string]int{"Namespace": -2, "CustomResourceDefinition": -1}
	slices.SortStableFunc(objects, func(a, b object) int { return rank[a.GetKind()] - rank[b.GetKind()] })
	return objects
}

// TestKustomizations: each builds, and the API server accepts its objects.
func TestKustomizations(t *testing.T) {
	install(t)
	for folder := range kustomizations(t) {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			objects := kustomize(t, folder)
			byName(t, objects)
			for _, o := range objects {
				if o.GetLabels()["app.kubernetes.io/part-of"] != "stowage" {
					t.Errorf("%s has no label app.kubernetes.io/part-of", name(o))
				}
				if !served(o) {
					continue
				}
				if err := cluster.Apply(t.Context(), admin, o, metav1.DryRunAll); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestImages: the images are those that "make images" makes.
func TestImages(t *testing.T) {
	t.Parallel()
	for folder := range kustomizations(t) {
		for _, o := range kustomize(t, folder) {
			for _, image := range imagesOf(o.Object) {
				command, ok := strings.CutPrefix(image, "stowage.dev/stowage-")
				command, tag, _ := strings.Cut(command, ":")
				want := "dev"
				if command == "scheduler" {
					want = schedulerTag(newestMinor(t))
				}
				if _, err := os.Stat(filepath.Join(top, "cmd", command)); !ok || tag != want || err != nil {
					t.Errorf("%s: image %s: %v", name(o), image, err)
				}
			}
		}
	}
}

// schedulerTag is the tag of the scheduler's image that is built for a minor of Kubernetes.
func schedulerTag(minor string) string { return "dev-kube" + minor }

// minor is that of the tests' API servers.
func minor() string { return fixture.DefaultConfig().Binaries.Minor }

// newestMinor is the minor of Kubernetes that the scheduler is built for by default.
func newestMinor(t *testing.T) string {
	t.Helper()
	minors, err := filepath.Glob(filepath.Join(top, "pkg", "kubecompat", "*", "go.mod"))
	if err != nil || len(minors) == 0 {
		t.Fatalf("minors %v, error %v", minors, err)
	}
	return filepath.Base(filepath.Dir(slices.Max(minors)))
}

// TestImagesElsewhere: with the registry set in manifests/images all folders, and all commands of
// the pages, use only its images.
func TestImagesElsewhere(t *testing.T) {
	t.Parallel()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(files)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(copied, "images", "kustomization.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(strings.ReplaceAll(string(data), ": stowage.dev/", ": registry.example/team/"), "newTag: dev", "newTag: v1")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	images := 0
	for folder := range kustomizations(t) {
		out, err := command(t, tools.kustomize, "build", filepath.Join(copied, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range parse(t, out) {
			for _, image := range imagesOf(o.Object) {
				if images++; !strings.HasPrefix(image, "registry.example/team/stowage-") || !strings.Contains(image, ":v1") {
					t.Errorf("%s: %s has image %s", folder, name(o), image)
				}
			}
		}
	}
	if images < 10 {
		t.Errorf("%d images", images)
	}
}

// appliedFolder is a folder that a page applies.
var appliedFolder = regexp.MustCompile(`-k (manifests/[a-z/-]+)`)

// TestPagesApplyFolders: the folders that the pages apply exist.
func TestPagesApplyFolders(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(top + "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found, known := 0, kustomizations(t)
	for _, page := range append(pages, top+"README.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range appliedFolder.FindAllStringSubmatch(string(data), -1) {
			folder := strings.TrimPrefix(match[1], "manifests/")
			if _, ok := known[folder]; !ok {
				t.Errorf("%s applies %s, which is not there", filepath.Base(page), match[1])
			}
			found++
		}
	}
	if found < 10 {
		t.Errorf("the pages apply %d folders", found)
	}
}

// TestRunbooksElsewhere: with what docs/monitoring.md has for an overlay, all alerts lead to
// another page, each to its section.
func TestRunbooksElsewhere(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(top + "docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, said, _ := strings.Cut(string(page), "\nreplacements:\n")
	said, _, _ = strings.Cut(said, "```")
	overlay := t.TempDir()
	if err := os.CopyFS(filepath.Join(overlay, "manifests"), os.DirFS(files)); err != nil {
		t.Fatal(err)
	}
	text := "resources: [manifests/monitoring, manifests/monitoring/extender]\nreplacements:\n" + said
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := command(t, tools.kustomize, "build", overlay)
	if err != nil {
		t.Fatal(err)
	}
	led := regexp.MustCompile(`runbook_url: (.*)#stowage[a-z]+\n`).FindAllStringSubmatch(out, -1)
	if len(led) < 10 || strings.Count(out, "runbook_url") != len(led) {
		t.Errorf("%d alerts of %d lead to a section", len(led), strings.Count(out, "runbook_url"))
	}
	for _, alert := range led {
		if alert[1] != "https://wiki.example/stowage" {
			t.Errorf("an alert leads to %s", alert[1])
		}
	}
}

// imagesOf finds the values of all fields named image.
func imagesOf(value any) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			if image, ok := v.(string); ok && key == "image" {
				found = append(found, image)
			}
			found = append(found, imagesOf(v)...)
		}
	case []any:
		for _, v := range value {
			found = append(found, imagesOf(v)...)
		}
	}
	return found
}
