// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

// reference is the files that it is made of, in their order and with comments.
type reference struct{ values, schema *yaml.Node }

func read(chart string) (*reference, error) {
	r := &reference{}
	for name, node := range map[string]**yaml.Node{"values.yaml": &r.values, "values.schema.json": &r.schema} {
		text, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			return nil, err
		}
		document := &yaml.Node{}
		if err := yaml.Unmarshal(text, document); err != nil || len(document.Content) != 1 {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		*node = document.Content[0]
	}
	return r, nil
}

// entry is a key of a mapping and its value.
type entry struct{ key, value *yaml.Node }

// entries returns those of a mapping in their order. Other nodes and nil have none.
func entries(node *yaml.Node) []entry {
	var all []entry
	if node != nil && node.Kind == yaml.MappingNode {
		for i := 0; i < len(node.Content); i += 2 {
			all = append(all, entry{node.Content[i], node.Content[i+1]})
		}
	}
	return all
}

// get returns the value at keys of nested mappings, or nil.
func get(node *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		var found *yaml.Node
		for _, e := range entries(node) {
			if e.key.Value == key {
				found = e.value
			}
		}
		node = found
	}
	return node
}

// text returns the string at a key.
func text(node *yaml.Node, key string) string {
	if value := get(node, key); value != nil {
		return value.Value
	}
	return ""
}

// placeholder is the name of any key of a map in the names of values.
const placeholder = "NAME"

// fields returns the schemas of an object's values: those by name, or that of all.
func (r *reference) fields(schema *yaml.Node) []entry {
	schema = r.resolve(schema)
	all := entries(get(schema, "properties"))
	for _, e := range entries(get(schema, "patternProperties")) {
		all = append(all, entry{&yaml.Node{Value: placeholder}, e.value})
	}
	return all
}

// resolve follows references to definitions.
func (r *reference) resolve(schema *yaml.Node) *yaml.Node {
	for text(schema, "$ref") != "" {
		schema = get(r.schema, strings.Split(strings.TrimPrefix(text(schema, "$ref"), "#/"), "/")...)
	}
	return schema
}

// description returns that of a schema, or of its definition.
func (r *reference) description(schema *yaml.Node) string {
	for ; schema != nil; schema = get(r.schema, strings.Split(strings.TrimPrefix(text(schema, "$ref"), "#/"), "/")...) {
		if is := text(schema, "description"); is != "" || text(schema, "$ref") == "" {
			return is
		}
	}
	return ""
}

// describedSchema sets the descriptions, and returns the schema as JSON.
func (r *reference) describedSchema() (string, error) {
	if err := r.describe("", r.values, r.schema); err != nil {
		return "", err
	}
	var lacking []error
	for _, definition := range entries(get(r.schema, "$defs")) {
		lacking = append(lacking, r.undescribed("$defs."+definition.key.Value+".", definition.value)...)
	}
	if lacking = append(lacking, r.undescribed("", r.schema)...); len(lacking) > 0 {
		return "", errors.Join(lacking...)
	}
	var compact, indented bytes.Buffer
	writeJSON(&compact, r.schema)
	err := json.Indent(&indented, compact.Bytes(), "", "  ")
	return indented.String() + "\n", err
}

// describe sets the descriptions of the values in a mapping.
func (r *reference) describe(prefix string, values, schema *yaml.Node) error {
	for _, value := range entries(values) {
		path := prefix + value.key.Value
		var of *yaml.Node
		for _, field := range r.fields(schema) {
			if field.key.Value == value.key.Value || field.key.Value == placeholder {
				of = field.value
			}
		}
		if of == nil && len(r.fields(schema)) == 0 {
			return nil // keys of the user
		}
		if of == nil {
			return fmt.Errorf("values.yaml: %s: must be in values.schema.json", path)
		}
		if comment := comment(value.key); comment != "" {
			setDescription(of, comment)
		}
		if err := r.describe(path+".", value.value, of); err != nil {
			return err
		}
	}
	return nil
}

// comment returns the last paragraph of the comment above a key as one line.
func comment(key *yaml.Node) string {
	paragraphs := strings.Split(strings.TrimSpace(key.HeadComment), "\n\n")
	var words []string
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		words = append(words, strings.Fields(strings.TrimPrefix(line, "#"))...)
	}
	return strings.Join(words, " ")
}

func setDescription(schema *yaml.Node, description string) {
	if is := get(schema, "description"); is != nil {
		is.Value = description
		return
	}
	added := []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "description"}, {Kind: yaml.ScalarNode, Tag: "!!str", Value: description}}
	schema.Content = append(added, schema.Content...)
}

// undescribed returns an error for each value of a schema without a description.
func (r *reference) undescribed(prefix string, schema *yaml.Node) []error {
	var lacking []error
	for _, field := range append(r.fields(schema), r.fields(get(schema, "items"))...) {
		path := prefix + field.key.Value
		if r.description(field.value) == "" {
			lacking = append(lacking, fmt.Errorf("%s: must have a description: write a comment above it in values.yaml, or its description to values.schema.json if it is not there", path))
		}
		if text(field.value, "$ref") == "" {
			lacking = append(lacking, r.undescribed(path+".", field.value)...)
		}
	}
	return lacking
}

// writeJSON writes a node in its order.
func writeJSON(out *bytes.Buffer, node *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		out.WriteByte('{')
		for i, e := range entries(node) {
			if i > 0 {
				out.WriteByte(',')
			}
			writeJSON(out, e.key)
			out.WriteByte(':')
			writeJSON(out, e.value)
		}
		out.WriteByte('}')
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range node.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			writeJSON(out, item)
		}
		out.WriteByte(']')
	default:
		if node.Tag != "!!str" {
			out.WriteString(node.Value)
			return
		}
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(node.Value) // of a string; json.Indent removes the line's end
	}
}
