// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// asRoot are the images that run as root and contain only their binary: only root may
// write to disks and mount. All others run as nonroot.
var asRoot = map[string]bool{"stowage-provisioner": true, "stowage-csi": true}

// searchPath is the default PATH of container runtimes.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// userOf is an image's user and group.
func userOf(image string) string {
	if asRoot[image] {
		return "0:0"
	}
	return fmt.Sprintf("%d:%[1]d", nonroot)
}

// envOf is the environment of an image without a base.
func envOf(image string) []string {
	if asRoot[image] {
		return []string{searchPath}
	}
	return []string{searchPath, "SSL_CERT_FILE=/" + certificates}
}

func entrypointOf(image string) []string { return []string{"/usr/local/bin/" + image} }

// labelsOf are annotations that the OCI image specification defines.
func (o options) labelsOf(image string) map[string]string {
	const at = "org.opencontainers.image."
	return map[string]string{
		at + "title":    image,
		at + "created":  o.created.Format(time.RFC3339),
		at + "version":  o.version,
		at + "revision": o.revision,
		at + "licenses": "Apache-2.0",
		at + "vendor":   "The Stowage Authors",
	}
}

// image is the image of one platform.
func (o options) image(ctx context.Context, image string, p v1.Platform) (v1.Image, error) {
	binary, err := o.readBinary(image, p)
	if err != nil {
		return nil, err
	}
	base, err := o.baseOf(ctx, image, p)
	if err != nil {
		return nil, err
	}
	whole, err := o.add(base, binaryFiles(image, binary), entrypointOf(image)[0])
	if err != nil {
		return nil, err
	}
	file, err := whole.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = p.OS, p.Architecture, p.Variant
	file.Created = v1.Time{Time: o.created}
	file.Config.User = userOf(image)
	file.Config.Entrypoint, file.Config.Cmd = entrypointOf(image), nil
	if file.Config.Labels == nil {
		file.Config.Labels = map[string]string{}
	}
	maps.Copy(file.Config.Labels, o.labelsOf(image))
	return mutate.ConfigFile(whole, file)
}

// baseOf is the image that the binary is added to.
func (o options) baseOf(ctx context.Context, image string, p v1.Platform) (v1.Image, error) {
	if !asRoot[image] && o.base != "" {
		ref, err := name.ParseReference(o.base)
		if err != nil {
			return nil, err
		}
		base, err := remote.Image(ref, remote.WithContext(ctx), remote.WithPlatform(p), remote.WithAuthFromKeychain(authn.DefaultKeychain))
		if err != nil {
			return nil, fmt.Errorf("get base %s: %w", o.base, err)
		}
		return base, nil
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if asRoot[image] {
		return mutate.Config(base, v1.Config{Env: envOf(image), WorkingDir: "/"})
	}
	base, err := mutate.Config(base, v1.Config{Env: envOf(image), WorkingDir: "/home/nonroot"})
	if err != nil {
		return nil, err
	}
	return o.add(base, baseFiles(), "certificates, users and folders")
}

// add appends a layer of files to an image, with the media types of the image.
func (o options) add(base v1.Image, files []file, what string) (v1.Image, error) {
	kind, err := base.MediaType()
	if err != nil {
		return nil, err
	}
	layerKind := types.OCILayer
	if kind == types.DockerManifestSchema2 {
		layerKind = types.DockerLayer
	}
	l, err := layer(files, o.created, layerKind)
	if err != nil {
		return nil, err
	}
	return mutate.Append(base, mutate.Addendum{Layer: l, MediaType: layerKind, History: v1.History{
		Created: v1.Time{Time: o.created}, CreatedBy: what,
	}})
}

// artifact is an image by its name, for all platforms.
type artifact struct {
	name      string
	reference string // stowage.dev/stowage-scheduler:dev
	images    []v1.Image
	index     v1.ImageIndex // nil with one platform
}

// artifact makes the image of every platform, and the index if there are several.
func (o options) artifact(ctx context.Context, image string) (artifact, error) {
	b := artifact{name: image, reference: o.registry + "/" + image + ":" + o.tag}
	var members []mutate.IndexAddendum
	for _, p := range o.platforms {
		one, err := o.image(ctx, image, p)
		if err != nil {
			return b, err
		}
		b.images = append(b.images, one)
		members = append(members, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &p}})
	}
	if len(b.images) > 1 {
		b.index = mutate.AppendManifests(empty.Index, members...)
	}
	return b, nil
}

// top is what the reference names: the index, or the only image.
func (b artifact) top() mutate.Appendable {
	if b.index != nil {
		return b.index
	}
	return b.images[0]
}

// size is that of all layers, packed, in bytes.
func (b artifact) size() (int64, error) {
	var sum int64
	for _, image := range b.images {
		m, err := image.Manifest()
		if err != nil {
			return 0, err
		}
		for _, l := range m.Layers {
			sum += l.Size
		}
	}
	return sum, nil
}

// machines are the architectures that Kubernetes runs on, by Go's names.
var machines = map[string]elf.Machine{
	"amd64":   elf.EM_X86_64,
	"arm64":   elf.EM_AARCH64,
	"ppc64le": elf.EM_PPC64,
	"s390x":   elf.EM_S390,
}

// readBinary returns a binary's bytes. It rejects a binary that cannot start in the
// image: one for another machine, and one that is linked dynamically, since the image has
// no libraries. A plugin is in no image.
func (o options) readBinary(name string, p v1.Platform) ([]byte, error) {
	path := o.binary(name, p)
	if isPlugin(name) {
		return os.ReadFile(path)
	}
	f, err := elf.Open(path)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("binary %s is missing: make images builds it", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read binary %s: %w", path, err)
	}
	defer f.Close()
	if want := machines[p.Architecture]; f.Machine != want {
		return nil, fmt.Errorf("binary %s is for %v, but %s needs %v", path, f.Machine, p, want)
	}
	for _, part := range f.Progs {
		if part.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("binary %s is linked dynamically: build it with CGO_ENABLED=0", path)
		}
	}
	return os.ReadFile(path)
}

// file is a file or folder of an image. A path that ends with a slash is a folder.
type file struct {
	path string // from the root, without the slash in front
	mode fs.FileMode
	user int // and group
	data []byte
}

// nonroot is the user of distroless images. It is a number: for runAsNonRoot, kubelet
// rejects names.
const nonroot = 65532

// certificates is the first path that the Go standard library reads, as in distroless images.
const certificates = "etc/ssl/certs/ca-certificates.crt"

// baseFiles are the files of a distroless image that the binaries need: certificates for
// API servers and webhooks with certificates of public authorities, a folder for temporary
// files, and a name for the user. Binaries are static and use UTC, so libraries and
// time zones are left out.
func baseFiles() []file {
	return []file{
		{path: "etc/", mode: 0o755},
		{path: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n")},
		{path: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/root:/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n" +
			"nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		{path: certificates, mode: 0o644, data: authorities(bundle.Roots())},
		{path: "home/", mode: 0o755},
		{path: "home/nonroot/", mode: 0o700, user: nonroot},
		{path: "tmp/", mode: fs.ModeSticky | 0o777},
	}
}

// authorities are the certificates of Mozilla's list, in PEM. Certificates that are trusted
// with constraints are left out: a PEM file has no place for constraints.
func authorities(roots iter.Seq[bundle.Root]) []byte {
	var out bytes.Buffer
	for root := range roots {
		if root.Constraint == nil {
			// Writing to a buffer does not fail.
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return out.Bytes()
}

// binaryFiles is the layer of a binary.
func binaryFiles(name string, data []byte) []file {
	return []file{
		{path: "usr/", mode: 0o755},
		{path: "usr/local/", mode: 0o755},
		{path: "usr/local/bin/", mode: 0o755},
		{path: "usr/local/bin/" + name, mode: 0o755, data: data},
	}
}
