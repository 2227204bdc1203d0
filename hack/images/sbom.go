// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/package-url/packageurl-go"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// unknown is how SPDX says that nothing is claimed.
const unknown = "NOASSERTION"

// sbom writes a document for each image and platform.
func (o order) sbom(ctx context.Context, stdout io.Writer) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	known, err := newLicences(ctx)
	if err != nil {
		return err
	}
	for _, image := range o.names {
		for _, p := range o.platforms {
			doc, err := o.document(image, p, known)
			if err != nil {
				return fmt.Errorf("make document of %s: %w", image, err)
			}
			var text bytes.Buffer
			if err := json.Write(doc, &text, json.Indent("  ")); err != nil {
				return fmt.Errorf("make document of %s: %w", image, err)
			}
			path := o.documentPath(image, p)
			if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(stdout, "%s: %d packages\n", path, len(doc.Packages))
		}
	}
	return nil
}

// documentPath has the platform in it where there are several.
func (o order) documentPath(image string, p v1.Platform) string {
	if len(o.platforms) > 1 {
		image += "-" + p.OS + "-" + p.Architecture
	}
	return filepath.Join(o.out, image+".spdx.json")
}

// document says what is in an image: the binary with its modules, and the certificates
// of an image that does not run as root.
func (o order) document(image string, p v1.Platform, known licences) (*spdx.Document, error) {
	path := o.binary(image, p)
	data, err := readBinary(path, p)
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
		DocumentName: image,
		// A name, not an address: the same for the same binary, and for no other.
		DocumentNamespace: fmt.Sprintf("https://%s/spdx/%s/%s/%s", home, image, o.version, sum),
		CreationInfo: &spdx.CreationInfo{
			Created:  o.created.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "stowage-images"}},
		},
	}
	d.Packages = []*spdx.Package{
		{
			PackageName: image, PackageSPDXIdentifier: "Image", PackageVersion: o.version,
			PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown,
			PackageCopyrightText: unknown, PrimaryPackagePurpose: "CONTAINER", PackageSourceInfo: "for " + p.String(),
		},
		{
			PackageName: info.Main.Path, PackageSPDXIdentifier: "Binary", PackageVersion: o.version, PackageFileName: entrypointOf(image)[0],
			PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: "Apache-2.0",
			PackageCopyrightText: unknown, PrimaryPackagePurpose: "APPLICATION",
			PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: sum}},
		},
	}
	relate(d, "DOCUMENT", common.TypeRelationshipDescribe, "Image")
	relate(d, "Image", common.TypeRelationshipContains, "Binary")
	for _, m := range modulesOf(info) {
		relate(d, "Binary", common.TypeRelationshipDependsOn, addModule(d, m, known.of(m)))
	}
	if !asRoot[image] {
		m, err := authoritiesModule()
		if err != nil {
			return nil, err
		}
		relate(d, "Image", common.TypeRelationshipContains, addModule(d, m, known.of(m)))
	}
	return d, spdxlib.ValidateDocument(d)
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
		// The hash of go.sum is one over all files; SPDX's checksums are of one file.
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
