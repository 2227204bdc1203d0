// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schematable has the words that Markdown tables of fields use for schemas: types, what is allowed, and descriptions.
package schematable

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schema = apiextensionsv1.JSONSchemaProps

// Type returns the type of a field as users read it.
func Type(s *schema) string {
	open := s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
	switch {
	case s.XIntOrString:
		return "integer or string"
	case s.Items != nil && s.Items.Schema != nil:
		kind := "list of " + plural(Type(s.Items.Schema))
		if s.Type == "" && open {
			return kind + ", or string"
		}
		return kind
	case s.Type == "" && open:
		return "object or string"
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "object of " + plural(Type(s.AdditionalProperties.Schema))
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

func plural(kind string) string { return kind + "s" }

// Allowed returns the conditions of a value.
func Allowed(s *schema, required bool) []string {
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
	bound(s.MinProperties, s.MaxProperties, "keys")
	if s.UniqueItems || s.XListType != nil && *s.XListType == "set" {
		all = append(all, "no duplicates")
	}
	switch number := func(n *float64) string { return strconv.FormatFloat(*n, 'f', -1, 64) }; {
	case s.Minimum != nil && s.Maximum != nil:
		all = append(all, number(s.Minimum)+" to "+number(s.Maximum))
	case s.Minimum != nil:
		all = append(all, "at least "+number(s.Minimum))
	}
	for _, v := range s.XValidations {
		all = append(all, Text(v.Message))
	}
	return all
}

// values returns the enumeration and the pattern of a value.
func values(s *schema) []string {
	var all []string
	if len(s.Enum) > 0 {
		var names []string
		for _, value := range s.Enum {
			name := strings.Trim(string(value.Raw), `"`)
			if name == "" {
				name = `""`
			}
			names = append(names, Code(name))
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
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`:  "DNS label",
	`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`: "DNS name",
	`^/.+`:                             "absolute path",
	`^([1-9][0-9]?|100)%$`:             "`1%` to `100%`",
	`^sha256:[0-9a-f]{64}$`:            "`sha256:` and 64 hexadecimal digits",
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
		return Code(strings.ReplaceAll(found[1], "|", "`, `")) + ", or a template"
	}
	return "matches " + Code(pattern)
}

var escapes = strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`, "_", `\_`)

// Text returns a description as one line of Markdown.
func Text(description string) string {
	return escapes.Replace(strings.Join(strings.Fields(description), " "))
}

// Row writes a row of a table.
func Row(page *strings.Builder, cells ...string) {
	fmt.Fprintf(page, "| %s |\n", strings.Join(cells, " | "))
}

// Code returns a text as code in a cell.
func Code(text string) string { return "`" + strings.ReplaceAll(text, "|", `\|`) + "`" }
