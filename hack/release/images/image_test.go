// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestImageHolds(t *testing.T) {
	t.Parallel()
	binary := func(name string) []string {
		return []string{"usr 755 0", "usr/local 755 0", "usr/local/bin 755 0", "usr/local/bin/" + name + " 755 0"}
	}
	beside := []string{
		"etc 755 0", "etc/group 644 0", "etc/passwd 644 0", "etc/ssl 755 0", "etc/ssl/certs 755 0",
		"etc/ssl/certs/ca-certificates.crt 644 0", "home 755 0", "home/nonroot 700 65532", "tmp 1777 0",
	}
	tests := map[string]struct {
		image      string
		wantFiles  []string
		wantConfig v1.Config
	}{
		"the provisioner runs as root and alone": {
			image: "stowage-provisioner", wantFiles: binary("stowage-provisioner"),
			wantConfig: v1.Config{
				User: "0:0", WorkingDir: "/", Env: []string{searchPath},
				Entrypoint: []string{"/usr/local/bin/stowage-provisioner"},
			},
		},
		"the scheduler is not root and trusts public authorities": {
			image: "stowage-scheduler", wantFiles: append(beside, binary("stowage-scheduler")...),
			wantConfig: v1.Config{
				User: "65532:65532", WorkingDir: "/home/nonroot",
				Env:        []string{searchPath, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
				Entrypoint: []string{"/usr/local/bin/stowage-scheduler"},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOptions(t, tt.image)
			image, err := o.image(t.Context(), tt.image, arm64)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for path, h := range filesOf(t, image) {
				got = append(got, fmt.Sprintf("%s %o %d", path, h.Mode, h.Uid))
				if !h.ModTime.Equal(o.created) {
					t.Errorf("%s is of %v, want %v", path, h.ModTime, o.created)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.wantFiles, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			file, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			tt.wantConfig.Labels = map[string]string{
				"org.opencontainers.image.title":    tt.image,
				"org.opencontainers.image.created":  "2026-11-22T02:00:00Z",
				"org.opencontainers.image.version":  "v1.2.3",
				"org.opencontainers.image.revision": "0123abc",
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.vendor":   "The Stowage Authors",
			}
			if diff := cmp.Diff(tt.wantConfig, file.Config); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			if got := file.Platform(); !got.Equals(arm64) {
				t.Errorf("the image says it is for %v, want %v", got, arm64)
			}
		})
	}
}

// TestAuthorities: the file is one that Go's TLS reads, with as many certificates as a
// distribution's.
func TestAuthorities(t *testing.T) {
	t.Parallel()
	for _, f := range baseFiles() {
		if f.path != certificates {
			continue
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(f.data) {
			t.Fatal("no certificate could be read")
		}
		if n := bytes.Count(f.data, []byte("BEGIN CERTIFICATE")); n < 100 {
			t.Errorf("%d certificates, want those of Mozilla's list, more than 100", n)
		}
		return
	}
	t.Errorf("no file %s", certificates)
}
