// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// source is a file of an archive: its name there, and where it is read. Its mode on disk, which depends on the
// umask, does not count.
type source struct {
	name, path string
	mode       fs.FileMode
}

// archiver writes an archive of files in their order. Owner and time are the same on every machine.
type archiver func(w io.Writer, files []source, created time.Time) error

// writeArchive writes an archive to path.
func writeArchive(path string, write archiver, files []source, created time.Time) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f, files, created), f.Close())
}

// writeTar writes a .tar.gz.
func writeTar(out io.Writer, files []source, created time.Time) error {
	zipped := gzip.NewWriter(out)
	w := tar.NewWriter(zipped)
	for _, s := range files {
		if err := s.copy(func(size int64) (io.Writer, error) {
			header := &tar.Header{Typeflag: tar.TypeReg, Name: s.name, Mode: int64(s.mode), Size: size, ModTime: created, Format: tar.FormatUSTAR}
			err := w.WriteHeader(header)
			return w, err
		}); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), zipped.Close())
}

// writeZip writes a .zip.
func writeZip(out io.Writer, files []source, created time.Time) error {
	w := zip.NewWriter(out)
	for _, s := range files {
		if err := s.copy(func(int64) (io.Writer, error) {
			header := &zip.FileHeader{Name: s.name, Method: zip.Deflate, Modified: created}
			header.SetMode(s.mode)
			return w.CreateHeader(header)
		}); err != nil {
			return err
		}
	}
	return w.Close()
}

// copy writes the file to what open returns for its size.
func (s source) copy(open func(size int64) (io.Writer, error)) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w, err := open(info.Size())
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// sum is the SHA-256 of a file, in hexadecimal.
func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
