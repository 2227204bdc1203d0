// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

const top = "../../.."

// dockerfile reads the Dockerfile as a builder does: its stages by name, the last one
// also as "", and the arguments before the first.
func dockerfile(t *testing.T) (map[string]instructions.Stage, map[string]string) {
	t.Helper()
	f, err := os.Open(filepath.Join(top, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read, err := parser.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	stages, globals, err := instructions.Parse(read.AST, linter.New(&linter.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]instructions.Stage{}
	for _, s := range stages {
		if _, twice := byName[s.Name]; twice {
			t.Errorf("two stages are called %q", s.Name)
		}
		byName[s.Name] = s
	}
	return byName, arguments(globals)
}

func arguments(args []instructions.ArgCommand) map[string]string {
	values := map[string]string{}
	for _, c := range args {
		for _, a := range c.Args {
			values[a.Key] = a.ValueString()
		}
	}
	return values
}

// settings returns the configuration that a stage and the stages below it set.
type settings struct {
	user, base string
	env        []string
	entrypoint []string
}

func settingsOf(stages map[string]instructions.Stage, name string) settings {
	stage, ours := stages[name]
	if !ours {
		return settings{base: name}
	}
	s := settingsOf(stages, stage.BaseName)
	for _, c := range stage.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			s.user = c.User
		case *instructions.EntrypointCommand:
			s.entrypoint = c.CmdLine
		case *instructions.EnvCommand:
			for _, pair := range c.Env {
				s.env = append(s.env, pair.String())
			}
		}
	}
	return s
}

// commands are the images that `make images` makes.
func commands(t *testing.T) []string {
	t.Helper()
	mains, err := filepath.Glob(filepath.Join(top, "cmd", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, main := range mains {
		if name := filepath.Base(filepath.Dir(main)); !strings.HasPrefix(name, "kubectl-") {
			names = append(names, name)
		}
	}
	return names
}

// TestDockerfileAgrees: for each command the Dockerfile sets what the archives set.
func TestDockerfileAgrees(t *testing.T) {
	t.Parallel()
	stages, globals := dockerfile(t)
	for _, command := range commands(t) {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			if _, ok := stages[command]; !ok {
				t.Fatalf("cmd/%s has no stage in the Dockerfile", command)
			}
			image := "stowage-" + command
			want := settings{user: userOf(image), base: "scratch", env: envOf(image), entrypoint: entrypointOf(image)}
			got := settingsOf(stages, command)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
				t.Errorf("(-archive +Dockerfile):\n%s", diff)
			}
		})
	}
	var got []string
	for name := range stages {
		if name != "" && name != "build" && name != "nonroot" && name != "root" {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(commands(t), got); diff != "" {
		t.Errorf("stages of commands (-cmd/ +Dockerfile):\n%s", diff)
	}
	if _, ok := stages[globals["COMMAND"]]; !ok {
		t.Errorf("the Dockerfile's own COMMAND=%s is no stage", globals["COMMAND"])
	}
	copies := slices.ContainsFunc(stages["nonroot"].Commands, func(c instructions.Command) bool {
		copied, ok := c.(*instructions.CopyCommand)
		return ok && copied.From == "build" && slices.Contains(copied.SourcePaths, "/"+certificates) && copied.DestPath == "/"+path.Dir(certificates)+"/"
	})
	if !copies {
		t.Errorf("the images that are not root have no /%s of the build", certificates)
	}
}

// TestDockerfileNeedsOneImage: the only external image is the compiler's, which a digest can pin.
func TestDockerfileNeedsOneImage(t *testing.T) {
	t.Parallel()
	stages, _ := dockerfile(t)
	for name, stage := range stages {
		_, ours := stages[stage.BaseName]
		if !ours && name != "build" && stage.BaseName != "scratch" && stage.BaseName != "${COMMAND}" {
			t.Errorf("stage %q is FROM %s, want scratch or another stage", name, stage.BaseName)
		}
	}
}

// TestDockerfileFinalStage: the last stage is the command's, with the labels and the
// binary that archives have.
func TestDockerfileFinalStage(t *testing.T) {
	t.Parallel()
	stages, _ := dockerfile(t)
	final := stages[""]
	if final.BaseName != "${COMMAND}" {
		t.Errorf("the last stage is FROM %s, want ${COMMAND}", final.BaseName)
	}
	got := map[string]string{}
	copied := ""
	var declared []instructions.ArgCommand
	for _, c := range final.Commands {
		switch c := c.(type) {
		case *instructions.LabelCommand:
			for _, l := range c.Labels {
				got[l.Key] = strings.Trim(l.Value, `"`)
			}
		case *instructions.CopyCommand:
			copied = c.From + " " + c.DestPath
		case *instructions.ArgCommand:
			declared = append(declared, *c)
		}
	}
	o := options{revision: "${REVISION}"}
	want := o.labelsOf("stowage-${COMMAND}")
	want["org.opencontainers.image.created"] = "${CREATED}"
	delete(want, versionLabel) // TestDockerfileVersions
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-archive +Dockerfile):\n%s", diff)
	}
	wantArgs := map[string]string{"COMMAND": "", "REVISION": "", "CREATED": "1970-01-01T00:00:00Z"}
	if diff := cmp.Diff(wantArgs, arguments(declared)); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if want := "build /usr/local/bin/"; copied != want {
		t.Errorf("copies %q, want %q", copied, want)
	}
}

const versionLabel = "org.opencontainers.image.version"

// TestDockerfileVersions: the version of the scheduler's image names the minor of Kubernetes, by
// default the Makefile's; that of the others does not.
func TestDockerfileVersions(t *testing.T) {
	t.Parallel()
	stages, globals := dockerfile(t)
	got := map[string]string{}
	for _, command := range commands(t) {
		// The last label of a stage and those below it counts.
		for name := command; got[command] == ""; name = stages[name].BaseName {
			if _, ours := stages[name]; !ours {
				break
			}
			for _, c := range stages[name].Commands {
				if labels, ok := c.(*instructions.LabelCommand); ok {
					for _, l := range labels.Labels {
						if l.Key == versionLabel {
							got[command] = strings.Trim(l.Value, `"`)
						}
					}
				}
			}
		}
	}
	want := map[string]string{
		"scheduler": "${VERSION}-kube${KUBE}", "extender": "${VERSION}", "controller": "${VERSION}", "provisioner": "${VERSION}",
		"pav-reporter": "${VERSION}", "csi": "${VERSION}",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +Dockerfile):\n%s", diff)
	}
	minors, err := filepath.Glob(filepath.Join(top, "pkg", "kubecompat", "*", "go.mod"))
	if err != nil || len(minors) == 0 {
		t.Fatalf("minors %v, error %v", minors, err)
	}
	if newest := filepath.Base(filepath.Dir(slices.Max(minors))); globals["KUBE"] != newest {
		t.Errorf("KUBE=%s, want %s", globals["KUBE"], newest)
	}
}

// TestDockerfileBuilds: the first stage compiles on the builder's platform, by the make rule that
// archives are built with, which the Makefile has. Its image has no default, since a tag can
// change what it names.
func TestDockerfileBuilds(t *testing.T) {
	t.Parallel()
	stages, globals := dockerfile(t)
	build := stages["build"]
	if build.BaseName != "${GO_IMAGE}" || build.Platform != "${BUILDPLATFORM}" {
		t.Errorf("the build is FROM --platform=%s %s, want ${BUILDPLATFORM} ${GO_IMAGE}", build.Platform, build.BaseName)
	}
	if image, ok := globals["GO_IMAGE"]; !ok || image != "" {
		t.Errorf("GO_IMAGE=%s, want the argument without a default", image)
	}
	var steps []string
	for _, c := range build.Commands {
		if run, ok := c.(*instructions.RunCommand); ok {
			steps = append(steps, run.CmdLine...)
		}
	}
	const rule = "make bin/${TARGETOS}-${TARGETARCH}/stowage-${COMMAND} PLATFORMS=${TARGETOS}/${TARGETARCH} VERSION=${VERSION} KUBE=${KUBE} "
	if got := strings.Join(steps, "\n"); !strings.HasPrefix(got, rule) {
		t.Errorf("the build runs %q, want %q…", got, rule)
	}
	if !strings.Contains(read(t, "Makefile"), "IMAGE_BINARIES = $(foreach p,$(subst $(comma), ,$(PLATFORMS)),$(addprefix bin/$(subst /,-,$(p))/,$(IMAGES)))") {
		t.Error("the Makefile builds images from other files than bin/OS-ARCH/stowage-COMMAND")
	}
}

// TestBuildContext: the build context contains all files that the build reads.
func TestBuildContext(t *testing.T) {
	t.Parallel()
	lines := strings.Split(read(t, ".dockerignore"), "\n")
	for _, part := range []string{"cmd", "pkg", "go.mod", "go.sum", "go-*.mod", "go-*.sum", "Makefile", "vendor", "hack/progress.sh"} {
		if !slices.Contains(lines, "!"+part) {
			t.Errorf(".dockerignore keeps %s out", part)
		}
	}
	if !slices.Contains(lines, "*") {
		t.Error(".dockerignore lets everything in")
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
