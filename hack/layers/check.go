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
	"slices"
	"strings"
)

// Module is the path that the product's own imports begin with.
const Module = "stowage.dev/stowage"

// Check returns a sentence for each file that breaks a layer or a ban, sorted and without
// repetitions. CheckDeps checks transitive imports.
func Check(files []File, packages []Package, bans []Ban) []string {
	c := checker{packages: packages}
	for _, f := range files {
		c.checkLayer(f)
		if f.Test() {
			continue
		}
		c.checkOwnImports(f)
		c.checkPure(f)
		for _, ban := range bans {
			c.checkBan(f, ban)
		}
	}
	slices.Sort(c.breaches)
	return slices.Compact(c.breaches)
}

// CheckDeps returns a breach for each of deps, the import paths of everything that layer 0
// depends on, that layer 0 must not.
func CheckDeps(deps []string) []string {
	var breaches []string
	for _, dep := range deps {
		if inAny(dep, pureBannedDeps) {
			breaches = append(breaches, fmt.Sprintf("layer 0 depends on %s, through one of its imports", dep))
		}
	}
	return breaches
}

type checker struct {
	packages []Package
	breaches []string
}

func (c *checker) breach(format string, args ...any) {
	c.breaches = append(c.breaches, fmt.Sprintf(format, args...))
}

// checkLayer reports a package of the product without a layer.
func (c *checker) checkLayer(f File) {
	if !inAny(f.Path, []string{"cmd", "pkg"}) {
		return
	}
	if _, _, ok := c.find(f.Package()); !ok {
		c.breach("%s has no layer: add it in hack/layers/table.go", f.Package())
	}
}

// checkOwnImports reports imports within the product that do not go down.
func (c *checker) checkOwnImports(f File) {
	from, fromLayer, ok := c.find(f.Package())
	if !ok {
		return
	}
	for _, imported := range f.Imports {
		target, own := strings.CutPrefix(imported, Module+"/")
		if !own {
			continue
		}
		to, toLayer, ok := c.find(target)
		switch {
		case !ok:
			if inAny(target, []string{"cmd", "pkg"}) {
				continue // reported by checkLayer
			}
			c.breach("%s imports %s: the product does not import its tests and tools", f.Path, target)
		case to == from, toLayer == Keys:
		case fromLayer == Pure && toLayer == Pure:
		case fromLayer <= Leaf:
			c.breach("%s imports %s: leaves import nothing of the product outside %s", f.Path, target, from)
		case fromLayer == Pure:
			c.breach("%s imports %s: layer 0 imports layer 0 only", f.Path, target)
		case toLayer == fromLayer:
			c.breach("%s imports %s sideways: both are in layer %d", f.Path, target, fromLayer)
		case toLayer > fromLayer:
			c.breach("%s imports %s: imports go down, not from layer %d to %d", f.Path, target, fromLayer, toLayer)
		}
	}
}

// checkPure reports imports of layer 0 from outside the product that are not allowed.
func (c *checker) checkPure(f File) {
	if _, layer, ok := c.find(f.Package()); !ok || layer != Pure {
		return
	}
	for _, imported := range f.Imports {
		switch {
		case inAny(imported, []string{Module}): // checkOwnImports
		case isStd(imported):
			if inAny(imported, pureBannedStd) {
				c.breach("%s imports %s: layer 0 decides from its arguments alone", f.Path, imported)
			}
		case !inAny(imported, pureAllowed):
			c.breach("%s imports %s: layer 0 imports the standard library, %s only", f.Path, imported, strings.Join(pureAllowed, ", "))
		}
	}
}

func (c *checker) checkBan(f File, ban Ban) {
	if !placed(f.Package(), ban.On, true) || placed(f.Package(), ban.But, false) {
		return
	}
	for _, imported := range f.Imports {
		if inAny(imported, ban.Imports) {
			c.breach("%s imports %s: %s", f.Path, strings.TrimPrefix(imported, Module+"/"), ban.Why)
		}
	}
}

// find returns the folder of the entry that a package is covered by, and its layer.
func (c *checker) find(pkg string) (folder string, layer Layer, ok bool) {
	for _, r := range c.packages {
		if folder, ok := within(pkg, r.Path); ok {
			return folder, r.Layer, true
		}
	}
	return "", 0, false
}

// placed reports whether a package is in one of the places; otherwise if there are none.
func placed(pkg string, places []string, otherwise bool) bool {
	if len(places) == 0 {
		return otherwise
	}
	return slices.ContainsFunc(places, func(place string) bool {
		_, ok := within(pkg, place)
		return ok
	})
}

// within reports whether pkg is, or is below, a folder that matches pattern, whose *
// elements stand for any one element, and returns that folder.
func within(pkg, pattern string) (folder string, ok bool) {
	have, want := strings.Split(pkg, "/"), strings.Split(pattern, "/")
	if len(have) < len(want) {
		return "", false
	}
	for i, element := range want {
		if element != "*" && element != have[i] {
			return "", false
		}
	}
	return strings.Join(have[:len(want)], "/"), true
}

// inAny reports whether path is, or is below, one of the folders.
func inAny(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return path == folder || strings.HasPrefix(path, folder+"/")
	})
}

// isStd reports whether the package is of the standard library: other paths begin with a domain,
// which has a dot.
func isStd(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

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
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		f := File{Path: filepath.ToSlash(rel)}
		for _, spec := range syntax.Imports {
			f.Imports = append(f.Imports, strings.Trim(spec.Path.Value, "\"`"))
		}
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
