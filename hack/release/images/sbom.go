// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/licensecheck"
	"github.com/package-url/packageurl-go"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
	"golang.org/x/mod/module"
)

// unknown is SPDX's value for a field without an assertion.
const unknown = "NOASSERTION"

// sbom writes a document for each image and platform.
func (o options) sbom(ctx context.Context, stdout io.Writer) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	known, err := newLicences(ctx)
	if err != nil {
		return err
	}
	for _, image := range o.names {
		o := o.ofBinary(image)
		for _, p := range o.platforms {
			doc, err := o.document(image, p, known)
			if err != nil {
				return fmt.Errorf("make document of %s: %w", image, err)
			}
			var text bytes.Buffer
			if err := json.Write(doc, &text, json.Indent("  ")); err != nil {
				return fmt.Errorf("make document of %s: %w", image, err)
			}
			name := image
			if len(o.platforms) > 1 {
				name += "-" + p.OS + "-" + p.Architecture
			}
			path := filepath.Join(o.out, name+".spdx.json")
			if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(stdout, "%s: %d packages\n", path, len(doc.Packages))
		}
	}
	return nil
}

// document lists the contents of an image: the binary with its modules, and the certificates
// of an image that does not run as root. A plugin is a binary without an image.
func (o options) document(name string, p v1.Platform, known licences) (*spdx.Document, error) {
	path := o.binary(name, p)
	data, err := o.readBinary(name, p)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read build info of %s: %w", path, err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	d := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: name,
		// A unique name, not an address: it differs between binaries.
		DocumentNamespace: fmt.Sprintf("https://%s/spdx/%s/%s/%s", repository, name, o.version, sum),
		CreationInfo: &spdx.CreationInfo{
			Created:  o.created.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "stowage-images"}},
		},
	}
	binary := &spdx.Package{
		PackageName: info.Main.Path, PackageSPDXIdentifier: "Binary", PackageVersion: o.version, PackageFileName: entrypointOf(name)[0],
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: "Apache-2.0",
		PackageCopyrightText: unknown, PrimaryPackagePurpose: "APPLICATION",
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: sum}},
	}
	if isPlugin(name) {
		binary.PackageFileName, binary.PackageSourceInfo = filepath.Base(path), "for "+p.String()
		d.Packages = []*spdx.Package{binary}
		relate(d, "DOCUMENT", common.TypeRelationshipDescribe, "Binary")
	} else {
		d.Packages = []*spdx.Package{o.imagePackage(name, p), binary}
		relate(d, "DOCUMENT", common.TypeRelationshipDescribe, "Image")
		relate(d, "Image", common.TypeRelationshipContains, "Binary")
	}
	for _, m := range modulesOf(info) {
		relate(d, "Binary", common.TypeRelationshipDependsOn, addModule(d, m, known.of(m)))
	}
	if !isPlugin(name) && !asRoot[name] {
		m, err := authoritiesModule()
		if err != nil {
			return nil, err
		}
		relate(d, "Image", common.TypeRelationshipContains, addModule(d, m, known.of(m)))
	}
	return d, spdxlib.ValidateDocument(d)
}

func (o options) imagePackage(name string, p v1.Platform) *spdx.Package {
	return &spdx.Package{
		PackageName: name, PackageSPDXIdentifier: "Image", PackageVersion: o.version,
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown,
		PackageCopyrightText: unknown, PrimaryPackagePurpose: "CONTAINER", PackageSourceInfo: "for " + p.String(),
	}
}

// addModule adds a module of Go and returns its identifier.
func addModule(d *spdx.Document, m debug.Module, licence string) string {
	namespace, base := "", m.Path
	if i := strings.LastIndex(m.Path, "/"); i >= 0 {
		namespace, base = m.Path[:i], m.Path[i+1:]
	}
	id := fmt.Sprintf("Module-%d", len(d.Packages))
	one := &spdx.Package{
		PackageName: m.Path, PackageSPDXIdentifier: common.ElementID(id), PackageVersion: m.Version,
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: licence,
		PackageCopyrightText: unknown, PrimaryPackagePurpose: "LIBRARY",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: packageurl.NewPackageURL(packageurl.TypeGolang, namespace, base, m.Version, nil, "").ToString(),
		}},
	}
	if m.Sum != "" {
		// The hash of go.sum covers all files; an SPDX checksum is that of one file.
		one.PackageSourceInfo = "go.sum " + m.Sum
	}
	d.Packages = append(d.Packages, one)
	return id
}

func relate(d *spdx.Document, a, how, b string) {
	d.Relationships = append(d.Relationships, &spdx.Relationship{
		RefA: common.MakeDocElementID("", a), Relationship: how, RefB: common.MakeDocElementID("", b),
	})
}

// standard is the name of Go's standard library in package URLs.
const standard = "stdlib"

// modulesOf are the modules that a binary depends on, after replacement, and the standard
// library.
func modulesOf(info *debug.BuildInfo) []debug.Module {
	modules := []debug.Module{{Path: standard, Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, *m)
	}
	return modules
}

// authoritiesModule is the module of the certificates in images, a dependency of this
// command.
func authoritiesModule() (debug.Module, error) {
	const path = "golang.org/x/crypto/x509roots/fallback"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return debug.Module{}, errors.New("this command has no build info with the version of its certificates")
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == path })
	if i < 0 {
		return debug.Module{}, fmt.Errorf("this command was built without module %s, which has its certificates", path)
	}
	return *info.Deps[i], nil
}

// licences finds the licences of modules in the module cache.
type licences struct{ cache string }

func newLicences(ctx context.Context) (licences, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return licences{}, fmt.Errorf("find the module cache: %w", err)
	}
	return licences{cache: strings.TrimSpace(string(out))}, nil
}

// licenceFile matches the names of files with a licence.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-].*)?$`)

// enough of a file, in percent, must be licence text, so that a file that only mentions a
// licence does not count. pkg.go.dev has the same threshold.
const enough = 75

// of is the SPDX expression for all licences in a module's top folder, or NOASSERTION.
func (l licences) of(m debug.Module) string {
	if m.Path == standard {
		return "BSD-3-Clause"
	}
	path, errPath := module.EscapePath(m.Path)
	version, errVersion := module.EscapeVersion(m.Version)
	if errPath != nil || errVersion != nil {
		return unknown
	}
	folder := filepath.Join(l.cache, path+"@"+version)
	entries, err := os.ReadDir(folder)
	if err != nil { // built from vendor/, or elsewhere
		return unknown
	}
	var found []string
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return unknown
		}
		names := recognize(text)
		if len(names) == 0 {
			return unknown // a licence without a known name is kept
		}
		found = append(found, names...)
	}
	if len(found) == 0 {
		return unknown
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " AND ")
}

// recognize returns the names of the licences in a file.
func recognize(text []byte) []string {
	cover := licensecheck.Scan(text)
	if cover.Percent < enough {
		return nil
	}
	var names []string
	for _, match := range cover.Match {
		if !match.IsURL {
			names = append(names, match.ID)
		}
	}
	return names
}
