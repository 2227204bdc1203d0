// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	yaml "sigs.k8s.io/yaml/goyaml.v3"

	"stowage.dev/stowage/hack/schematable"
)

// ofParts is the beginning of references to the values that each part takes, which have a table of their own.
const ofParts = "#/$defs/part/"

// most is how many rows a value at the top may have in the table of several.
const most = 8

// page returns the tables of values.
func (r *reference) page() (string, error) {
	var general, sections strings.Builder
	head(&general, "General", "")
	for _, field := range r.fields(r.schema) {
		name := field.key.Value
		rows, err := r.rows(nil, row{path: name, schema: field.value, value: get(r.values, name)})
		if err != nil {
			return "", err
		}
		out, whole := &general, encode(field.value)
		if len(rows) > most || strings.Contains(whole, ofParts) {
			head(&sections, name, r.description(field.value))
			out, rows = &sections, rows[1:]
		}
		for _, cells := range rows {
			schematable.Row(out, cells...)
		}
	}
	head(&sections, "Each part", "Values of `scheduler`, `extender`, `provisioner`, `controller` and `pav.csi`, such as `provisioner.nodeSelector`. Without them, the manifests' apply.")
	rows, err := r.rows(nil, row{path: "PART", schema: get(r.schema, "$defs", "part")})
	if err != nil {
		return "", err
	}
	for _, cells := range rows[1:] {
		schematable.Row(&sections, cells...)
	}
	return general.String() + sections.String(), nil
}

func head(page *strings.Builder, heading, description string) {
	fmt.Fprintf(page, "\n### %s\n\n", heading)
	if description != "" {
		fmt.Fprintf(page, "%s\n\n", links(schematable.Text(description)))
	}
	page.WriteString("| value | type | default | allowed | description |\n| --- | --- | --- | --- | --- |\n")
}

// row is a value of the chart.
type row struct {
	path     string
	schema   *yaml.Node
	value    *yaml.Node // its default, or nil
	required bool
}

// rows adds the cells of a value and of those in it.
func (r *reference) rows(all [][]string, v row) ([][]string, error) {
	schema, err := r.convert(v.schema)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.path, err)
	}
	fields, below := r.fields(v.schema), v.path+"."
	if items := get(r.resolve(v.schema), "items"); items != nil {
		fields, below = r.fields(items), v.path+"[]."
	}
	def := ""
	if v.value != nil && !v.required && (len(fields) == 0 || len(v.value.Content) == 0 || v.value.Kind == yaml.SequenceNode) {
		def = schematable.Code(encode(v.value))
	}
	all = append(all, []string{schematable.Code(v.path), schematable.Type(schema), def, strings.Join(schematable.Allowed(schema, v.required), "; "), links(schematable.Text(r.description(v.schema)))})
	for _, field := range fields {
		name := field.key.Value
		value := get(v.value, name)
		if some := entries(v.value); name == placeholder && len(some) > 0 {
			value = some[0].value
		}
		if value == nil && strings.HasPrefix(text(field.value, "$ref"), ofParts) {
			continue
		}
		required := get(r.resolve(v.schema), "required")
		if all, err = r.rows(all, row{path: below + name, schema: field.value, value: value, required: has(required, name)}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func has(list *yaml.Node, text string) bool {
	return list != nil && slices.ContainsFunc(list.Content, func(n *yaml.Node) bool { return n.Value == text })
}

// convert returns a schema without those of its fields.
func (r *reference) convert(schema *yaml.Node) (*apiextensionsv1.JSONSchemaProps, error) {
	var fields map[string]any
	if err := json.Unmarshal([]byte(encode(r.resolve(schema))), &fields); err != nil {
		return nil, err
	}
	delete(fields, "properties")
	delete(fields, "patternProperties")
	if _, several := fields["type"].([]any); several { // which the type of Kubernetes does not have
		delete(fields, "type")
		fields["x-kubernetes-int-or-string"] = true
	}
	converted, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	props := &apiextensionsv1.JSONSchemaProps{}
	return props, json.Unmarshal(converted, props)
}

// encode returns a node as JSON on one line.
func encode(node *yaml.Node) string {
	var out, compact bytes.Buffer
	writeJSON(&out, node)
	if json.Compact(&compact, out.Bytes()) != nil {
		return out.String()
	}
	return compact.String()
}

// document is a page that a description names.
var document = regexp.MustCompile(`\bdocs/[a-z/-]+\.md\b`)

// links makes links of the names of pages, from the folder of the chart.
func links(text string) string { return document.ReplaceAllString(text, "[$0](../../../$0)") }
