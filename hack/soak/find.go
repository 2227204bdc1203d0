// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// campaign is a test that calls campaign.Begin.
type campaign struct {
	folder string // of its package, relative to the repository
	test   string
}

// String is what -run is matched against.
func (c campaign) String() string { return c.folder + "." + c.test }

// find returns the campaigns in the folders of a repository, in order.
func find(repository string, folders ...string) ([]campaign, error) {
	var all []campaign
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			tests, err := campaignsOf(path)
			if err != nil {
				return err
			}
			in, err := filepath.Rel(repository, filepath.Dir(path))
			for _, test := range tests {
				all = append(all, campaign{folder: filepath.ToSlash(in), test: test})
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("find campaigns below %s: %w", folder, err)
		}
	}
	slices.SortFunc(all, func(a, b campaign) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}

// campaignsOf returns the tests of a file that call campaign.Begin.
func campaignsOf(path string) ([]string, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var tests []string
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && function.Recv == nil && strings.HasPrefix(function.Name.Name, "Test") && begins(function) {
			tests = append(tests, function.Name.Name)
		}
	}
	return tests, nil
}

// begins reports whether the function calls campaign.Begin.
func begins(function *ast.FuncDecl) bool {
	found := false
	ast.Inspect(function, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if selected, ok := call.Fun.(*ast.SelectorExpr); ok && selected.Sel.Name == "Begin" {
				of, ok := selected.X.(*ast.Ident)
				found = found || ok && of.Name == "campaign"
			}
		}
		return !found
	})
	return found
}
