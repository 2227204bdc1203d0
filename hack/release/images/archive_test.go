// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// written makes an artifact and its archive.
func written(t *testing.T, o options) (artifact, string) {
	t.Helper()
	a, err := o.artifact(t.Context(), o.names[0])
	if err != nil {
		t.Fatal(err)
	}
	path, err := o.archive(a)
	if err != nil {
		t.Fatal(err)
	}
	return a, path
}

// TestArchiveForDocker: versions of docker without OCI archives load the same image under its
// name.
func TestArchiveForDocker(t *testing.T) {
	t.Parallel()
	a, path := written(t, newOptions(t, "stowage-extender"))
	tag, err := name.NewTag("stowage.dev/stowage-extender:dev")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	want, err := a.images[0].ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	got, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("docker reads image %s, want %s", got, want)
	}
}

func TestArchiveHolds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		platforms []v1.Platform
		wantIndex bool
		docker    bool
	}{
		"one platform is an image, also for docker":  {platforms: []v1.Platform{arm64}, docker: true},
		"two platforms are an index with two images": {platforms: []v1.Platform{amd64, arm64}, wantIndex: true},
	}
	for title, tt := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			o := newOptions(t, "stowage-scheduler")
			o.platforms = tt.platforms
			a, path := written(t, o)
			index, entry := unpack(t, path)
			if err := validate.Index(index); err != nil {
				t.Error(err)
			}
			digest, err := a.top().Digest()
			if err != nil {
				t.Fatal(err)
			}
			if entry.Digest != digest {
				t.Errorf("archive has %s, want %s", entry.Digest, digest)
			}
			if got, want := entry.Annotations["io.containerd.image.name"], "stowage.dev/stowage-scheduler:dev"; got != want {
				t.Errorf("containerd would call it %q, want %q", got, want)
			}
			if got := entry.MediaType.IsIndex(); got != tt.wantIndex {
				t.Errorf("is an index: %v, want %v", got, tt.wantIndex)
			}
			if tt.wantIndex {
				var got []v1.Platform
				inner, err := index.ImageIndex(digest)
				if err != nil {
					t.Fatal(err)
				}
				m, err := inner.IndexManifest()
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range m.Manifests {
					got = append(got, *d.Platform)
				}
				if diff := cmp.Diff(tt.platforms, got); diff != "" {
					t.Errorf("platforms (-want +got):\n%s", diff)
				}
			}
			data, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer data.Close()
			if _, got := entries(t, data)["manifest.json"]; got != tt.docker {
				t.Errorf("is for docker: %v, want %v", got, tt.docker)
			}
		})
	}
}

// TestSameEveryTime: the same inputs make the same archive in any folder and at any time; no
// other file remains.
func TestSameEveryTime(t *testing.T) {
	t.Parallel()
	first := newOptions(t, "stowage-scheduler")
	first.platforms = []v1.Platform{amd64, arm64}
	second := newOptions(t, "stowage-scheduler")
	second.platforms = first.platforms
	later := newOptions(t, "stowage-scheduler")
	later.platforms, later.created = first.platforms, first.created.Add(time.Second)

	var archives [][]byte
	for _, o := range []options{first, second, second, later} {
		_, path := written(t, o)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, data)
		left, err := os.ReadDir(o.out)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) != 1 {
			t.Errorf("%d files in %s, want the archive alone: %v", len(left), o.out, left)
		}
	}
	for i, same := range []bool{true, true, false} {
		if got := bytes.Equal(archives[0], archives[i+1]); got != same {
			t.Errorf("archive %d is the same as the first: %v, want %v", i+2, got, same)
		}
	}
}

// TestTable runs the command, from arguments to the table.
func TestTable(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "stowage-scheduler", "stowage-provisioner")
	var out bytes.Buffer
	err := run(t.Context(), []string{
		"write", "-bin=" + o.bin, "-out=" + o.out, "-platforms=linux/amd64,linux/arm64", "-tag=v9",
		"stowage-scheduler", "stowage-provisioner",
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("want a heading and two images:\n%s", out.String())
	}
	for i, image := range []string{"stowage-scheduler", "stowage-provisioner"} {
		_, entry := unpack(t, o.out+"/"+image+".tar")
		got := strings.Fields(lines[i+1])
		want := []string{
			"stowage.dev/" + image + ":v9", "linux/amd64,linux/arm64", got[2], "MB",
			entry.Digest.String(), o.out + "/" + image + ".tar",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("line (-want +got):\n%s", diff)
		}
	}
}

// TestNothingHalfWritten: an image that cannot be made does not change the archive.
func TestNothingHalfWritten(t *testing.T) {
	t.Parallel()
	o := newOptions(t, "stowage-scheduler")
	_, path := written(t, o)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(o.binary("stowage-scheduler", arm64)); err != nil {
		t.Fatal(err)
	}
	o.platforms = []v1.Platform{amd64, arm64}
	if err := o.write(t.Context(), io.Discard); err == nil {
		t.Fatal("no error though a binary is missing")
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the archive has changed")
	}
}
