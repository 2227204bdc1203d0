// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// newRegistry serves an empty registry and returns its host and port.
func newRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestPush(t *testing.T) {
	t.Parallel()
	for title, platforms := range map[string][]v1.Platform{
		"an image":  {amd64},
		"an index":  {amd64, arm64},
		"of others": {arm64},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			o := newOptions(t, "stowage-extender")
			o.platforms, o.push = platforms, newRegistry(t)+"/team/storage"
			if err := o.write(t.Context(), io.Discard); err != nil {
				t.Fatal(err)
			}
			_, entry := unpack(t, o.out+"/stowage-extender.tar")
			ref, err := name.ParseReference(o.push + "/stowage-extender:dev")
			if err != nil {
				t.Fatal(err)
			}
			got, err := remote.Get(ref)
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest != entry.Digest {
				t.Errorf("the registry has %s, the archive %s", got.Digest, entry.Digest)
			}

			var out strings.Builder
			to := newRegistry(t) + "/mirror"
			if err := run(t.Context(), []string{"push", "-to=" + to, o.out + "/stowage-extender.tar"}, &out); err != nil {
				t.Fatal(err)
			}
			want := to + "/stowage-extender:dev@" + entry.Digest.String() + "\n"
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("pushed later (-want +got):\n%s", diff)
			}
			if ref, err = name.ParseReference(strings.TrimSuffix(want, "\n")); err != nil {
				t.Fatal(err)
			}
			if _, err := remote.Get(ref); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBase: the options of the image override those of the base; others are kept.
func TestBase(t *testing.T) {
	t.Parallel()
	base := newBase(t)
	o := newOptions(t, "stowage-scheduler", "stowage-provisioner")
	o.base = base
	image, err := o.image(t.Context(), "stowage-scheduler", arm64)
	if err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, image)
	for _, path := range []string{"etc/base-of-arm64", "usr/local/bin/stowage-scheduler"} {
		if files[path] == nil {
			t.Errorf("the image has no %s", path)
		}
	}
	if files[certificates] != nil {
		t.Error("the image has certificates besides those of its base")
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	labels := o.labelsOf("stowage-scheduler")
	labels["base"] = "kept"
	want := v1.Config{
		User: "65532:65532", Env: []string{"TZ=UTC"}, Labels: labels,
		Entrypoint: []string{"/usr/local/bin/stowage-scheduler"},
	}
	if diff := cmp.Diff(want, file.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}

	root, err := o.image(t.Context(), "stowage-provisioner", arm64)
	if err != nil {
		t.Fatal(err)
	}
	if filesOf(t, root)["etc/base-of-arm64"] != nil {
		t.Error("the provisioner has the base as well")
	}
}

// newBase pushes an index of two images, and returns its reference.
func newBase(t *testing.T) string {
	t.Helper()
	reference := newRegistry(t) + "/base:nonroot"
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	var members []mutate.IndexAddendum
	for _, p := range []v1.Platform{amd64, arm64} {
		kind, err := empty.Image.MediaType()
		if err != nil {
			t.Fatal(err)
		}
		l, err := layer([]file{{path: "etc/base-of-" + p.Architecture, mode: 0o644}}, newOptions(t).created, kind)
		if err != nil {
			t.Fatal(err)
		}
		image, err := mutate.AppendLayers(empty.Image, l)
		if err != nil {
			t.Fatal(err)
		}
		image, err = mutate.Config(image, v1.Config{
			User: "nonroot", Env: []string{"TZ=UTC"}, Cmd: []string{"sh"}, Entrypoint: []string{"/init"},
			Labels: map[string]string{"base": "kept", "org.opencontainers.image.title": "base"},
		})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &p}})
	}
	if err := remote.WriteIndex(ref, mutate.AppendManifests(empty.Index, members...)); err != nil {
		t.Fatal(err)
	}
	return reference
}
