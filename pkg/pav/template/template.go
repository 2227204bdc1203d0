// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package template evaluates the templates of pod-templated volume provisioners: the subset of
// Jinja2 3.1 that the seed needs ("Jinja templating"), with trim_blocks and lstrip_blocks on and
// keep_trailing_newline off.
//
// It has expressions, filters, tests, if, for, set, raw and comments. Macros, blocks, includes,
// imports, with, filter blocks and autoescape are errors of Parse. It answers as Jinja2 does
// (testdata/corpus.jsonl has recorded answers), but for the differences that differences_test.go
// lists; most come from two rules: only strings and numbers have a text, and values are those of
// JSON.
//
// A template cannot outrun its Budget, whatever its source and its variables are.
package template

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxSource is the length of the longest source that Parse accepts, in bytes.
const MaxSource = 256 << 10

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	source string // with \n as the only line end
	body   []statement
}

// Parse parses the source of a template. The error is an *Error.
func Parse(source string) (parsed *Template, err error) {
	defer recoverError(&err)
	switch {
	case len(source) > MaxSource:
		panic(&Error{Line: 1, Column: 1, Message: fmt.Sprintf("the template has %d bytes; at most %d are allowed", len(source), MaxSource)})
	case !utf8.ValidString(source):
		panic(&Error{Line: 1, Column: 1, Message: "the template is not valid UTF-8"})
	}
	source = lineEnds.Replace(source)
	p := &parser{source: source, tokens: lex(source)}
	return &Template{source: source, body: p.template()}, nil
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// Error is an error in a template, found by Parse or while the template is executed.
type Error struct {
	// Line and Column are where the error is, from 1. Column counts characters, not bytes.
	Line, Column int
	Message      string
}

// Error returns the position and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// errorAt returns an error at a byte offset of a source.
func errorAt(source string, offset int, format string, args ...any) *Error {
	before := source[:offset]
	line := strings.LastIndexByte(before, '\n') + 1
	return &Error{
		Line:    strings.Count(before, "\n") + 1,
		Column:  utf8.RuneCountInString(before[line:]) + 1,
		Message: fmt.Sprintf(format, args...),
	}
}

// recoverError makes an *Error that the lexer, the parser or the evaluator panicked with the
// error of their caller. Other panics continue.
func recoverError(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}

// Function is a function that templates can call. Its arguments and its result are values as in
// Scope. It must not change its arguments.
type Function func(arguments []any) (any, error)

// Budget limits what templates may consume. Execute decreases Steps and Bytes, so one Budget
// limits all templates that share it. It is not safe for concurrent use.
type Budget struct {
	// Steps is how many operations are left: about one per evaluated node, element and 64 bytes
	// of text that is read.
	Steps int
	// Bytes is how many bytes may still be produced: output, and all intermediate texts, lists
	// and dicts, also those that are no longer used.
	Bytes int
	// Depth is how deeply expressions and values may be nested.
	Depth int
}

// DefaultBudget returns the budget of the templates of one step of a provisioner: at most about a
// second of one processor, and several times the largest object that the API server stores.
func DefaultBudget() *Budget {
	return &Budget{Steps: 1_000_000, Bytes: 8 << 20, Depth: 100}
}

// Scope is what a template can access.
//
// Values have the shapes of JSON: nil, bool, int64, float64, string, []any and map[string]any.
// Numbers without a fraction must be int64, or they print with ".0"; integers outside its range
// are errors. Execute never changes values, but may return parts of them to Functions.
type Scope struct {
	Variables map[string]any
	Functions map[string]Function
	// Budget is decreased; nil means DefaultBudget.
	Budget *Budget
}

// Result is the outcome of a template.
type Result struct {
	Text string
	// YAML reports that the template set its top-level variable yaml to true: Text is YAML, and
	// the value that it describes replaces the template (seed, "Jinja templating").
	YAML bool
}

// Execute evaluates the template. The error is an *Error.
func (t *Template) Execute(s Scope) (result Result, err error) {
	defer recoverError(&err)
	e := newEvaluator(t.source, s)
	e.statements(t.body)
	yaml, _ := e.scopes[0]["yaml"].(bool)
	return Result{Text: e.out.String(), YAML: yaml}, nil
}
