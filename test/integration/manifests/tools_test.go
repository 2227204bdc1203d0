// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Where things are, from here.
const (
	top   = "../../../"
	files = top + "manifests"
	chart = files + "/charts/stowage"
)

// Where the chart is installed.
const (
	release   = "stowage"
	namespace = "stowage-system"
)

// toolPaths are the tools that hack/tools pins.
type toolPaths struct{ helm, kustomize string }

func buildTools(ctx context.Context) (toolPaths, error) {
	var t toolPaths
	for pkg, path := range map[string]*string{
		"helm.sh/helm/v4/cmd/helm":           &t.helm,
		"sigs.k8s.io/kustomize/kustomize/v5": &t.kustomize,
	} {
		cmd := exec.CommandContext(ctx, top+"hack/tools/install.sh", pkg)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return t, fmt.Errorf("build %s: %w", pkg, err)
		}
		*path = strings.TrimSpace(string(out))
	}
	return t, nil
}

// kustomize builds a folder of manifests.
func kustomize(t *testing.T, folder string) []object {
	t.Helper()
	out, err := command(t, tools.kustomize, "build", filepath.Join(files, folder))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, out)
}

// render renders the chart with --set arguments, hooks included.
func render(t *testing.T, set ...string) []object {
	t.Helper()
	out, err := template(t, set...)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, out)
}

// template is helm template.
func template(t *testing.T, set ...string) (string, error) {
	t.Helper()
	args := []string{"template", release, chart, "--namespace", namespace, "--kube-version", "1.37.1"}
	for _, s := range set {
		flag := "--set"
		if strings.ContainsAny(s, "[{") {
			flag = "--set-json"
		}
		args = append(args, flag, s)
	}
	return command(t, tools.helm, args...)
}

// command runs a tool, without the user's own configuration of it, and returns its
// standard output. Its error has its standard error.
func command(t *testing.T, path string, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "HOME="+home)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), args[0], err, errs.String())
	}
	return out.String(), nil
}

// waitFor polls for a state that has no events: that the API server
// evaluates a policy, or that a kind is served.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !comes(t, done) {
		t.Fatalf("wait until %s: not within %s", what, waitTimeout)
	}
}

// comes is waitFor without failing the test.
func comes(t *testing.T, done func() bool) bool {
	return wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, waitTimeout, true, func(context.Context) (bool, error) { //nolint:forbidigo // there is no event
		return done(), nil
	}) == nil
}
