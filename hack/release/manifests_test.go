// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// imageField matches images in objects, also that of the reporter in the controller's configuration.
var imageField = regexp.MustCompile(`(?m)^\s*(?:- )?(?:i|reporterI)mage: (\S+)$`)

// imagesOf are the images of objects, each once.
func imagesOf(objects string) []string {
	var images []string
	for _, match := range imageField.FindAllStringSubmatch(objects, -1) {
		images = append(images, match[1])
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// TestChart: the packed chart names the release's images by digest, the scheduler's of the API server's minor. What users
// set overrides that.
func TestChart(t *testing.T) {
	t.Parallel()
	r := packed(t)
	pinned := func(part int) string {
		return r.registry + "/" + parts[part].name + ":v1.2.3" + parts[part].minor + "@" + digest(part)
	}
	controller, csi, extender, reporter, provisioner := pinned(0), pinned(1), pinned(2), pinned(3), pinned(4)
	others := []string{controller, csi, extender, reporter, provisioner}
	mirrored := func(images ...string) (list []string) {
		for _, i := range images {
			list = append(list, strings.Replace(i, r.registry, "mirror.example", 1))
		}
		return list
	}
	tests := map[string]struct {
		kube, set string
		want      []string
	}{
		"the oldest minor": {kube: "1.36.0", want: append(slices.Clone(others), pinned(5))},
		"the newest minor": {kube: "1.37.1", want: append(slices.Clone(others), pinned(6))},
		"a newer one":      {kube: "1.38.0", want: append(slices.Clone(others), pinned(6))},
		"a minor without a build in this release": {kube: "1.35.0", set: "extender.enabled=false",
			want: []string{controller, csi, reporter, provisioner, r.registry + "/stowage-scheduler:v1.2.3-kube1.35"}},
		"a mirror": {kube: "1.37.1", set: "image.registry=mirror.example", want: mirrored(append(slices.Clone(others), pinned(6))...)},
		"an image of the user's": {kube: "1.37.1", set: "provisioner.image.repository=mine.example/provisioner",
			want: []string{"mine.example/provisioner:v1.2.3", controller, csi, extender, reporter, pinned(6)}},
		"another tag": {kube: "1.37.1", set: "provisioner.image.tag=v1.2.4,scheduler.image.digest=" + digest(8),
			want: []string{controller, csi, extender, reporter, r.registry + "/stowage-provisioner:v1.2.4", r.registry + "/stowage-scheduler@" + digest(8)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := r.output(t.Context(), r.helm, "template", "stowage", filepath.Join(r.out, "stowage-1.2.3.tgz"),
				"--namespace=stowage-system", "--kube-version="+test.kube, "--set=extender.enabled=true,pav.enabled=true", "--set="+test.set)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, imagesOf(out)); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
			if !strings.Contains(out, "helm.sh/chart: stowage-1.2.3") {
				t.Error("objects do not name the chart's version")
			}
		})
	}
}

// TestFolders: kustomize makes of the packed folders what it makes of the repository, with the images by digest.
func TestFolders(t *testing.T) {
	t.Parallel()
	r := packed(t)
	folders := t.TempDir()
	if _, err := r.output(t.Context(), "tar", "-C", folders, "-xzf", filepath.Join(r.out, "stowage-manifests-v1.2.3.tar.gz")); err != nil {
		t.Fatal(err)
	}
	unpinned := regexp.MustCompile(`(image: )registry\.example/team/(stowage-[a-z]+):v1\.2\.3(-kube1\.\d+)?@sha256:\d+`)
	for _, folder := range []string{"overlays/default", "overlays/monitored", "extender/full", "csi", "uninstall"} {
		var made [2]string
		for i, top := range []string{r.source, folders} {
			var err error
			if made[i], err = r.output(t.Context(), r.kustomize, "build", filepath.Join(top, "manifests", folder)); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(made[0], unpinned.ReplaceAllString(made[1], "${1}stowage.dev/$2:dev$3")); diff != "" {
			t.Errorf("%s (-repository +release):\n%s", folder, diff)
		}
		if folder == "overlays/default" {
			if diff := cmp.Diff(made[1]+"\n", string(read(t, r.out, "stowage-default-v1.2.3.yaml"))); diff != "" {
				t.Errorf("the file of the default overlay (-folder +file):\n%s", diff)
			}
		}
	}
}
