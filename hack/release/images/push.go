// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// send pushes an image, with the credentials that `docker login` stored, and returns the
// reference under which it can be pulled. A registry on this machine is accessed by HTTP.
func (o options) send(ctx context.Context, b artifact) (string, error) {
	ref, err := name.NewTag(o.push + "/" + b.name + ":" + o.tag)
	if err != nil {
		return "", err
	}
	if b.index != nil {
		return ref.String(), remote.WriteIndex(ref, b.index, remotely(ctx)...)
	}
	return ref.String(), remote.Write(ref, b.images[0], remotely(ctx)...)
}

func remotely(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
}

// push pushes archives under the names and tags that they have, and prints the references
// with the digests.
func push(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("images push", flag.ContinueOnError)
	to := flags.String("to", "", "registry and prefix to push to, registry.example/team")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := checkRegistry("-to", *to); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name the archives to push, such as bin/images/stowage-scheduler.tar")
	}
	for _, archive := range flags.Args() {
		pushed, err := pushArchive(ctx, *to, archive)
		if err != nil {
			return fmt.Errorf("push %s: %w", archive, err)
		}
		fmt.Fprintln(stdout, pushed)
	}
	return nil
}

func pushArchive(ctx context.Context, to, archive string) (string, error) {
	folder, err := os.MkdirTemp("", "stowage-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	if err := unpackFolder(folder, archive); err != nil {
		return "", err
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return "", err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", err
	}
	if len(manifest.Manifests) != 1 {
		return "", fmt.Errorf("it has %d images, want 1", len(manifest.Manifests))
	}
	entry := manifest.Manifests[0]
	ref, err := name.NewTag(to + "/" + path.Base(entry.Annotations[referenceAnnotation]))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s@%s", ref, entry.Digest), pushEntry(ctx, ref, index, entry)
}

func pushEntry(ctx context.Context, ref name.Tag, index v1.ImageIndex, entry v1.Descriptor) error {
	if entry.MediaType.IsIndex() {
		platforms, err := index.ImageIndex(entry.Digest)
		if err != nil {
			return err
		}
		return remote.WriteIndex(ref, platforms, remotely(ctx)...)
	}
	image, err := index.Image(entry.Digest)
	if err != nil {
		return err
	}
	return remote.Write(ref, image, remotely(ctx)...)
}

// unpackFolder is the reverse of packFolder. It writes nothing outside of the folder.
func unpackFolder(folder, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := root.MkdirAll(path.Dir(header.Name), 0o755); err != nil {
			return err
		}
		out, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r) //nolint:gosec // it is our archive
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}
