// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/localdisk/localpv"
)

const secret = "what the first shop has sold\n"

// writeSecrets writes into each of the StatefulSet's volumes, as its pods would: a file,
// or the beginning of a device.
func (d *demo) writeSecrets() error {
	volumes, err := d.shopVolumes()
	if err != nil {
		return err
	}
	for _, pv := range volumes {
		path := secretOf(pv)
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		_, err = file.WriteString(secret)
		if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
			return fmt.Errorf("write a secret to %s: %w", path, err)
		}
	}
	return nil
}

// secretOf is where a volume's secret is.
func secretOf(pv *v1.PersistentVolume) string {
	if isDevice(pv) {
		return localpv.PathOf(pv)
	}
	return filepath.Join(localpv.PathOf(pv), "secret.txt")
}

func isDevice(pv *v1.PersistentVolume) bool {
	return pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// checkClean finds what is left of the secrets.
func (d *demo) checkClean() error {
	var errs []error
	for _, pv := range d.former {
		errs = append(errs, checkErased(pv))
	}
	return errors.Join(errs...)
}

func checkErased(pv *v1.PersistentVolume) error {
	path := secretOf(pv)
	if !isDevice(pv) {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s should have been removed: %w", path, errors.Join(err, errLeft))
		}
		return nil
	}
	device, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	begin := make([]byte, 1<<20)
	if _, err := io.ReadFull(device, begin); err != nil {
		return err
	}
	if len(bytes.Trim(begin, "\x00")) > 0 {
		return fmt.Errorf("%s should read as zeros: %w", path, errLeft)
	}
	return nil
}

var errLeft = errors.New("a volume was published again with what a pod had written")
