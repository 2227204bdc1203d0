// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/pem"
	"io/fs"
	"iter"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

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
