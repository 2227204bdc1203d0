// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxFileBytes is the API server's limit for a ConfigMap, and so for each key.
const maxFileBytes = 1 << 20

// DecodeFolder reads a folder with one file for each key, such as a mounted ConfigMap. Names that
// begin with ".." are kubelet's and are skipped. kubelet replaces all files of a ConfigMap at
// once; DecodeFolder reads one version. It returns Errors, or an error of reading the folder.
func DecodeFolder(folder string) (*ProvisionerConfiguration, error) {
	data, err := readFolder(folder)
	if err != nil {
		return nil, err
	}
	return Decode(data)
}

// swaps limits how often kubelet may replace the files during a read.
const swaps = 3

func readFolder(folder string) (data map[string]string, err error) {
	for range swaps {
		version, linkErr := filepath.EvalSymlinks(filepath.Join(folder, "..data"))
		if linkErr != nil {
			return readFiles(folder) // no mounted ConfigMap
		}
		// kubelet removes a version after it has replaced it.
		if data, err = readFiles(version); !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
	return nil, err
}

func readFiles(folder string) (map[string]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read configuration folder: %w", err)
	}
	data := map[string]string{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		content, err := readFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		data[entry.Name()] = content
	}
	return data, nil
}

// readFile reads a regular file that may be a key of a ConfigMap.
func readFile(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file: the folder must hold a file for each key and nothing else", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return "", err
	}
	if len(content) > maxFileBytes {
		return "", fmt.Errorf("%s is larger than a ConfigMap can be (%d bytes)", name, maxFileBytes)
	}
	return string(content), nil
}
