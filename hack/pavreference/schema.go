// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
		crd.Spec.Group, version.Name, strings.ToLower(string(crd.Spec.Scope)), code(strings.Join(crd.Spec.Names.ShortNames, ", ")), limits(root))
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
		all.WriteString(" Condition: " + text(v.Message) + ".")
	}
	return all.String()
}

// writeField writes the row of a field and those of its fields.
func writeField(page *strings.Builder, path string, s *schema, required bool) {
	def := ""
	if s.Default != nil && string(s.Default.Raw) != "{}" {
		def = code(string(s.Default.Raw))
	}
	row(page, code(path), typeOf(s), def, strings.Join(allowed(s, required), "; "), text(s.Description))
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

// typeOf returns the type of a field as users read it.
func typeOf(s *schema) string {
	open := s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
	switch {
	case s.XIntOrString:
		return "integer or string"
	case s.Items != nil && s.Items.Schema != nil:
		kind := "list of " + plural(typeOf(s.Items.Schema))
		if s.Type == "" && open {
			return kind + ", or string"
		}
		return kind
	case s.Type == "" && open:
		return "object or string"
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

func plural(kind string) string { return kind + "s" }

// allowed returns the conditions of a value.
func allowed(s *schema, required bool) []string {
	var all []string
	if required {
		all = append(all, "required")
	}
	if s.Items != nil && s.Items.Schema != nil {
		all = append(all, values(s.Items.Schema)...)
	}
	all = append(all, values(s)...)
	bound := func(least, most *int64, unit string) {
		switch {
		case least != nil && most != nil:
			all = append(all, fmt.Sprintf("%d to %d %s", *least, *most, unit))
		case least != nil && *least == 1:
			all = append(all, "not empty")
		case least != nil:
			all = append(all, fmt.Sprintf("at least %d %s", *least, unit))
		case most != nil:
			all = append(all, fmt.Sprintf("at most %d %s", *most, unit))
		}
	}
	bound(s.MinItems, s.MaxItems, "items")
	bound(s.MinLength, s.MaxLength, "characters")
	if s.XListType != nil && *s.XListType == "set" {
		all = append(all, "no duplicates")
	}
	if s.Minimum != nil {
		all = append(all, "at least "+strconv.FormatFloat(*s.Minimum, 'f', -1, 64))
	}
	for _, v := range s.XValidations {
		all = append(all, text(v.Message))
	}
	return all
}

// values returns the enumeration and the pattern of a value.
func values(s *schema) []string {
	var all []string
	if len(s.Enum) > 0 {
		var names []string
		for _, value := range s.Enum {
			names = append(names, code(strings.Trim(string(value.Raw), `"`)))
		}
		all = append(all, strings.Join(names, ", "))
	}
	if s.Pattern != "" {
		all = append(all, matching(s.Pattern))
	}
	return all
}

// patterns are patterns in words. Others are printed.
var patterns = map[string]string{
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`: "DNS label",
	`^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$|[{][{%#]`:                         "quantity such as `1073741824` or `1Gi`, or a template",
	`^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`: "quantity",
}

// choice is the pattern of words that a template may replace.
var choice = regexp.MustCompile(`^\^\(([A-Za-z|]+)\)\$\|\[\{\]\[\{%#\]$`)

func matching(pattern string) string {
	if words := patterns[pattern]; words != "" {
		return words
	}
	if found := choice.FindStringSubmatch(pattern); found != nil {
		return code(strings.ReplaceAll(found[1], "|", "`, `")) + ", or a template"
	}
	return "matches " + code(pattern)
}

var escapes = strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`, "_", `\_`)

// text returns a description as one line of Markdown.
func text(description string) string {
	return escapes.Replace(strings.Join(strings.Fields(description), " "))
}

// paragraphs returns a description with its paragraphs, each a line of Markdown.
func paragraphs(description string) string {
	var all []string
	for p := range strings.SplitSeq(description, "\n\n") {
		all = append(all, text(p))
	}
	return strings.Join(all, "\n\n")
}
