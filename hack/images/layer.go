// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layer packs files, in their order and all of one time, so that the same files make
// the same layer.
func layer(files []file, at time.Time, kind types.MediaType) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range files {
		if err := f.pack(w, at); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(kind), tarball.WithCompressedCaching)
}

func (f file) pack(w *tar.Writer, at time.Time) error {
	h := &tar.Header{
		Name: f.path, Mode: int64(f.mode.Perm()), Uid: f.user, Gid: f.user,
		Size: int64(len(f.data)), Typeflag: tar.TypeReg, ModTime: at, Format: tar.FormatUSTAR,
	}
	if strings.HasSuffix(f.path, "/") {
		h.Typeflag = tar.TypeDir
	}
	if f.mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(f.data)
	return err
}
