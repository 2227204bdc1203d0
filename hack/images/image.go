// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// asRoot are the images that run as root and hold nothing but their binary: disks
// belong to root. All others run as nonroot.
var asRoot = map[string]bool{"stowage-provisioner": true}

// searchPath is the default of container engines.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// userOf is an image's user and group.
func userOf(image string) string {
	if asRoot[image] {
		return "0:0"
	}
	return fmt.Sprintf("%d:%[1]d", nonroot)
}

// envOf is the environment of an image on a base of our own.
func envOf(image string) []string {
	if asRoot[image] {
		return []string{searchPath}
	}
	return []string{searchPath, "SSL_CERT_FILE=/" + certificates}
}

func entrypointOf(image string) []string { return []string{"/usr/local/bin/" + image} }

// labelsOf are the annotations that the OCI image specification names.
func (o order) labelsOf(image string) map[string]string {
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
func (o order) image(ctx context.Context, image string, p v1.Platform) (v1.Image, error) {
	binary, err := readBinary(o.binary(image, p), p)
	if err != nil {
		return nil, err
	}
	base, err := o.baseOf(ctx, image, p)
	if err != nil {
		return nil, err
	}
	whole, err := o.add(base, binaryFiles(image, binary), "/usr/local/bin/"+image)
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

// baseOf is what the binary is put on.
func (o order) baseOf(ctx context.Context, image string, p v1.Platform) (v1.Image, error) {
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

// add puts a layer of files onto an image, in the image's own media types.
func (o order) add(base v1.Image, files []file, what string) (v1.Image, error) {
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
