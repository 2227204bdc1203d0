// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package waits finds the waits of tests that do not derive from test/deadline, which a slow
// machine could not stretch. Its test reads the repository.
package waits

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// Exempt, in a comment on the line of a call, marks a pause, or a time limit that the product
// guarantees on every machine, as opposed to a wait of a test.
const Exempt = "not a deadline:"

// bounding are the functions whose argument of a duration or time bounds a wait, with the
// index of that argument.
var bounding = map[string]int{
	"context.WithTimeout":          1,
	"context.WithTimeoutCause":     1,
	"context.WithDeadline":         1,
	"time.After":                   0,
	"time.AfterFunc":               0,
	"time.NewTimer":                0,
	"wait.PollUntilContextTimeout": 2,
}

// File is the source of a Go file, by its name.
type File struct {
	Name   string
	Source []byte
}

// Check returns a sentence for each wait, in files of one package, that is bounded by
// a literal duration of seconds or more.
func Check(files []File) ([]string, error) {
	positions := token.NewFileSet()
	var parsed []*ast.File
	constant := map[string]bool{} // names in the package of literal durations
	for _, f := range files {
		syntax, err := parser.ParseFile(positions, f.Name, f.Source, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", f.Name, err)
		}
		parsed = append(parsed, syntax)
		ast.Inspect(syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if i < len(spec.Values) && written(spec.Values[i], nil) {
					constant[name.Name] = true
				}
			}
			return true
		})
	}
	var breaches []string
	for _, syntax := range parsed {
		breaches = append(breaches, check(positions, syntax, constant)...)
	}
	return breaches, nil
}

func check(positions *token.FileSet, file *ast.File, constant map[string]bool) []string {
	exempt := map[int]bool{} // lines
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if strings.Contains(comment.Text, Exempt) {
				exempt[positions.Position(comment.Pos()).Line] = true
			}
		}
	}
	var breaches []string
	report := func(n ast.Node, what string) {
		if at := positions.Position(n.Pos()); !exempt[at.Line] {
			breaches = append(breaches, fmt.Sprintf("%s:%d: %s must be a multiple of deadline.Wait(), or give a reason: // %s ...", at.Filename, at.Line, what, Exempt))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := types.ExprString(n.Fun)
			if i, ok := bounding[name]; ok && i < len(n.Args) && written(n.Args[i], constant) {
				report(n, "the wait of "+name)
			}
			if strings.HasSuffix(name, "Deadline") && !strings.HasPrefix(name, "context.") && len(n.Args) == 1 && written(n.Args[0], constant) {
				report(n, "the wait of "+name)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				selector, ok := left.(*ast.SelectorExpr)
				if ok && selector.Sel.Name == "Timeout" && isEnv(types.ExprString(selector.X)) && i < len(n.Rhs) && written(n.Rhs[i], constant) {
					report(n, "Timeout")
				}
			}
		}
		return true
	})
	return breaches
}

// isEnv reports whether an expression is an Env of the fixture, as tests call it, and not
// the configuration of what is tested.
func isEnv(e string) bool { return e == "e" || e == "s" || strings.HasSuffix(e, ".Env") }

// written reports whether an expression has a duration of seconds or more, or the name of
// one, and nothing of package deadline.
func written(e ast.Expr, constant map[string]bool) bool {
	found, derived := false, false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			from, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			derived = derived || from.Name == "deadline"
			found = found || from.Name == "time" && slices.Contains([]string{"Second", "Minute", "Hour"}, n.Sel.Name)
			return false
		case *ast.Ident:
			found = found || constant[n.Name]
		}
		return true
	})
	return found && !derived
}
