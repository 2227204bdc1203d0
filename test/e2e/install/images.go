// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package install

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

var folder = flag.String("images", "", "folder of the images that \"make images\" makes; default: bin/images of this repository")

// archives are the images of parts, which "make images" has made.
func archives(parts []string) ([]string, error) {
	if len(parts) == 0 {
		parts = []string{"provisioner", "controller", "scheduler"}
	}
	from := *folder
	if from == "" {
		top, err := repository()
		if err != nil {
			return nil, err
		}
		from = filepath.Join(top, "bin", "images")
	}
	var found []string
	for _, part := range parts {
		file := filepath.Join(from, "stowage-"+part+".tar")
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("find the image of the %s: %w; run make images, or name their folder by -images", part, err)
		}
		found = append(found, file)
	}
	return found, nil
}

// repository is found from where this file was compiled.
func repository() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	top := filepath.Join(filepath.Dir(file), "..", "..", "..")
	if _, err := os.Stat(filepath.Join(top, "manifests")); !ok || err != nil {
		return "", fmt.Errorf("find the manifests: %w", err)
	}
	return top, nil
}
