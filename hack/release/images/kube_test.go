// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMinorOfKubernetes: tag and version of an image name the minor of Kubernetes whose scheduler
// the binary contains. Other images have the tag and version that were given.
func TestMinorOfKubernetes(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "stowage-controller", "stowage-scheduler")
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module example\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.36.3\n\nreplace k8s.io/kubernetes => ./kubernetes\n",
		"main.go":           "package main\n\nimport _ \"k8s.io/kubernetes\"\n\nfunc main() {}\n",
		"kubernetes/go.mod": "module k8s.io/kubernetes\n\ngo 1.26.0\n",
		"kubernetes/k.go":   "package kubernetes\n",
	} {
		writeFile(t, filepath.Join(folder, name), []byte(text))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", o.binary("stowage-scheduler", amd64), ".")
	build.Dir, build.Env = folder, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var out strings.Builder
	if err := o.write(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"stowage.dev/stowage-controller:dev ", "stowage.dev/stowage-scheduler:dev-kube1.36 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q does not name %s", out.String(), want)
		}
	}
	index, top := unpack(t, filepath.Join(o.out, "stowage-scheduler.tar"))
	image, err := index.Image(top.Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config.Labels[versionLabel]; got != "v1.2.3-kube1.36" {
		t.Errorf("version %s", got)
	}
}
