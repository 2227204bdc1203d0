// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spdx/tools-golang/json"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// host is the platform that this command can be built for without compiling Go itself.
var host = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// built returns options for images of this command, which has enough modules.
func built(t *testing.T, names ...string) options {
	t.Helper()
	o := newOptions(t)
	o.names, o.platforms = names, []v1.Platform{host}
	path := filepath.Join(t.TempDir(), "images")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		writeFile(t, o.binary(name, host), data)
	}
	return o
}

// writeDocuments runs the binary of the first image, as make does, and returns the documents.
func writeDocuments(t *testing.T, o options) map[string]*spdx.Document {
	t.Helper()
	args := append([]string{"sbom", "-bin=" + o.bin, "-out=" + o.out, "-platforms=" + host.String(), "-version=v1.2.3",
		"-created=1795312800"}, o.names...)
	command := exec.CommandContext(t.Context(), o.binary(o.names[0], host), args...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("images %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	documents := map[string]*spdx.Document{}
	for _, name := range o.names {
		text, err := os.ReadFile(filepath.Join(o.out, name+".spdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := json.Read(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		documents[name] = doc
	}
	return documents
}

// TestDocuments: a document is valid, and names each module of the binary once, by
// the version, the hash and the licence that it has.
func TestDocuments(t *testing.T) {
	t.Parallel()
	o := built(t, "stowage-scheduler", "stowage-provisioner")
	documents := writeDocuments(t, o)
	info, err := buildinfo.ReadFile(o.binary("stowage-scheduler", host))
	if err != nil {
		t.Fatal(err)
	}
	for name, doc := range documents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := spdxlib.ValidateDocument(doc); err != nil {
				t.Error(err)
			}
			checkFields(t, doc)
			want := map[string]string{
				name: "v1.2.3", info.Main.Path: "v1.2.3", "stdlib": strings.TrimPrefix(info.GoVersion, "go"),
			}
			sums := map[string]string{}
			for _, m := range info.Deps {
				want[m.Path], sums[m.Path] = m.Version, "go.sum "+m.Sum
			}
			got := map[string]string{}
			certificates := 0
			for _, p := range doc.Packages {
				if p.PackageName == "golang.org/x/crypto/x509roots/fallback" {
					certificates++
				} else if _, twice := got[p.PackageName]; twice {
					t.Errorf("%s is named twice", p.PackageName)
				}
				got[p.PackageName] = p.PackageVersion
				if sum := sums[p.PackageName]; sum != "" && p.PackageSourceInfo != sum {
					t.Errorf("%s has %q, want %q", p.PackageName, p.PackageSourceInfo, sum)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("packages (-want +got):\n%s", diff)
			}
			// Once as a module of this command, and once more as files of the image.
			if want := map[bool]int{true: 1, false: 2}[asRoot[name]]; certificates != want {
				t.Errorf("certificates are named %d times, want %d", certificates, want)
			}
		})
	}
	again := writeDocuments(t, o)
	if diff := cmp.Diff(texts(t, documents), texts(t, again)); diff != "" {
		t.Errorf("written again, it differs (-first +second):\n%s", diff)
	}
}

func texts(t *testing.T, documents map[string]*spdx.Document) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, doc := range documents {
		var text bytes.Buffer
		if err := json.Write(doc, &text); err != nil {
			t.Fatal(err)
		}
		all[name] = text.String()
	}
	return all
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
	expression = regexp.MustCompile(`^(NOASSERTION|[A-Za-z0-9.+-]+( AND [A-Za-z0-9.+-]+)*)$`)
)

// checkFields checks what SPDX 2.3 requires of fields and the library does not check.
func checkFields(t *testing.T, doc *spdx.Document) {
	t.Helper()
	got := []string{doc.SPDXVersion, doc.DataLicense, string(doc.SPDXIdentifier), doc.CreationInfo.Created}
	if diff := cmp.Diff([]string{"SPDX-2.3", "CC0-1.0", "DOCUMENT", "2026-11-22T02:00:00Z"}, got); diff != "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(doc.DocumentNamespace, "https://stowage.dev/spdx/"+doc.DocumentName+"/v1.2.3/") {
		t.Errorf("namespace is %s", doc.DocumentNamespace)
	}
	ids, licensed := map[string]bool{}, 0
	for _, p := range doc.Packages {
		id := string(p.PackageSPDXIdentifier)
		if !identifier.MatchString(id) || ids[id] {
			t.Errorf("%s has identifier %q, which is not allowed or taken", p.PackageName, id)
		}
		ids[id] = true
		if p.PackageDownloadLocation == "" || p.PackageVersion == "" {
			t.Errorf("%s has no place or version", p.PackageName)
		}
		if !expression.MatchString(p.PackageLicenseDeclared) {
			t.Errorf("%s has licence %q, which is no expression", p.PackageName, p.PackageLicenseDeclared)
		}
		if p.PackageLicenseDeclared != unknown {
			licensed++
		}
	}
	if licensed*2 < len(doc.Packages) {
		t.Errorf("%d of %d packages have a licence: is the module cache read?", licensed, len(doc.Packages))
	}
}

// TestPluginDocument: the document of a plugin is of the binary alone, on each system.
func TestPluginDocument(t *testing.T) {
	t.Parallel()
	o := built(t, "stowage-scheduler")
	data, err := os.ReadFile(o.binary("stowage-scheduler", host))
	if err != nil {
		t.Fatal(err)
	}
	windows := v1.Platform{OS: "windows", Architecture: "arm64"}
	writeFile(t, o.bin+"/windows-arm64/kubectl-stowage.exe", data)
	doc, err := o.document("kubectl-stowage", windows, licences{})
	if err != nil {
		t.Fatal(err)
	}
	first := doc.Packages[0]
	got := []string{string(first.PackageSPDXIdentifier), first.PackageFileName, first.PackageVersion, first.PackageSourceInfo}
	if diff := cmp.Diff([]string{"Binary", "kubectl-stowage.exe", "v1.2.3", "for windows/arm64"}, got); diff != "" {
		t.Errorf("binary (-want +got):\n%s", diff)
	}
	info, err := buildinfo.ReadFile(o.binary("stowage-scheduler", host))
	if err != nil {
		t.Fatal(err)
	}
	if want := len(info.Deps) + 2; len(doc.Packages) != want {
		t.Errorf("%d packages, want %d: the binary, the standard library and modules", len(doc.Packages), want)
	}
}
