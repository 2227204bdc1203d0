// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// File is one Go file, whatever its build constraints.
type File struct {
	// Path is relative to the module, with slashes: pkg/scheduling/match/assign.go.
	Path    string
	Imports []string
}

// Package is the package of the file, relative to the module.
func (f File) Package() string { return path.Dir(f.Path) }

// Test reports whether only `go test` compiles the file.
func (f File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// ReadTree reads the imports of every Go file of the module in root. Folders that the go
// command ignores are left out, and nested modules.
//
// It reads the files instead of running `go list`, which ignores the files of other platforms;
// and `go test` caches a result only for files that the test has read.
func ReadTree(root string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && ignored(name, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parse(filepath.ToSlash(rel), source)
		files = append(files, f)
		return err
	})
	return files, err
}

// ignored reports whether the go command skips the folder.
func ignored(name, base string) bool {
	if base == "vendor" || base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	return err == nil
}

func parse(name string, source []byte) (File, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
	if err != nil {
		return File{}, fmt.Errorf("parse %s: %w", name, err)
	}
	f := File{Path: name}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return File{}, fmt.Errorf("parse import of %s: %w", name, err)
		}
		f.Imports = append(f.Imports, imported)
	}
	return f, nil
}
