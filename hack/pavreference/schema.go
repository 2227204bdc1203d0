// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"stowage.dev/stowage/hack/schematable"
)

type schema = apiextensionsv1.JSONSchemaProps

// writeKind writes the fields of a kind. It has one version.
func writeKind(page *strings.Builder, crd *apiextensionsv1.CustomResourceDefinition) error {
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Schema == nil {
		return errors.New("must have one version with a schema")
	}
	version := crd.Spec.Versions[0]
	root := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(page, "\n## %s\n\n%s\n\n`apiVersion: %s/%s`, %s-scoped, short name %s.%s\n", crd.Spec.Names.Kind, paragraphs(root.Description),
		crd.Spec.Group, version.Name, strings.ToLower(string(crd.Spec.Scope)), schematable.Code(strings.Join(crd.Spec.Names.ShortNames, ", ")), limits(root))
	page.WriteString("\n| field | type | default | allowed | description |\n| --- | --- | --- | --- | --- |\n")
	for _, name := range []string{"spec", "status"} {
		part, ok := root.Properties[name]
		if !ok {
			return fmt.Errorf("has no %s", name)
		}
		writeField(page, name, &part, false)
	}
	return nil
}

// limits returns what the whole object must fulfill, as sentences.
func limits(root *schema) string {
	var all strings.Builder
	for _, v := range root.XValidations {
		all.WriteString(" Condition: " + schematable.Text(v.Message) + ".")
	}
	return all.String()
}

// writeField writes the row of a field and those of its fields.
func writeField(page *strings.Builder, path string, s *schema, required bool) {
	def := ""
	if s.Default != nil && string(s.Default.Raw) != "{}" {
		def = schematable.Code(string(s.Default.Raw))
	}
	schematable.Row(page, schematable.Code(path), schematable.Type(s), def, strings.Join(schematable.Allowed(s, required), "; "), schematable.Text(s.Description))
	if strings.HasSuffix(path, ".conditions") {
		return // those of Kubernetes
	}
	fields, below := s.Properties, path+"."
	of := s
	if s.Items != nil && s.Items.Schema != nil && len(s.Items.Schema.Properties) > 0 {
		of = s.Items.Schema
		fields, below = of.Properties, path+"[]."
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field := fields[name]
		writeField(page, below+name, &field, slices.Contains(of.Required, name))
	}
}

// paragraphs returns a description with its paragraphs, each a line of Markdown.
func paragraphs(description string) string {
	var all []string
	for p := range strings.SplitSeq(description, "\n\n") {
		all = append(all, schematable.Text(p))
	}
	return strings.Join(all, "\n\n")
}
