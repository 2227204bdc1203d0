// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chartreference writes the descriptions in the Helm chart's values.schema.json, and its README.md. A value
// in values.yaml is described by the comment above it; one without a default, in the schema. It fails if a value has no
// description.
//
//	go run ./hack/chartreference manifests/charts/stowage
//
// helm-docs reads values.yaml alone, so it has neither types nor values without a default, and has had no release since
// July 2024. helm-schema writes the whole schema, whose patterns and shared definitions would have to be comments.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// introduction is README.md, with a line that the tables of values replace.
//
//go:embed readme.md
var introduction string

const tables = "<!-- values -->\n"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chartreference CHART")
		os.Exit(2)
	}
	files, err := generate(os.Args[1])
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name), []byte(text), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chartreference:", err)
		os.Exit(1)
	}
}

// generate returns the files of a chart by name.
func generate(chart string) (map[string]string, error) {
	r, err := read(chart)
	if err != nil {
		return nil, err
	}
	schema, err := r.describedSchema()
	if err != nil {
		return nil, err
	}
	page, err := r.page()
	if err != nil {
		return nil, err
	}
	return map[string]string{"values.schema.json": schema, "README.md": strings.Replace(introduction, tables, page, 1)}, nil
}
