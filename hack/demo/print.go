// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

const (
	indent = "   "
	// columns fits a terminal of 100 with some space left.
	columns = 94
)

// title prints the heading of a step.
func (d *demo) title(number int, text string) {
	fmt.Fprintf(d.out, "\n%d. %s\n", number, text)
}

// print prints a paragraph.
func (d *demo) print(format string, args ...any) {
	fmt.Fprintln(d.out, wrap(fmt.Sprintf(format, args...), indent))
}

// quote prints the message of a component.
func (d *demo) quote(text string) {
	fmt.Fprintln(d.out, wrap(text, indent+"| "))
}

// wrap breaks text between words, so that no line is longer than columns unless
// a word is. Each line begins with prefix.
func wrap(text, prefix string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = prefix + word
		case len(line)+1+len(word) > columns:
			lines = append(lines, line)
			line = prefix + word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}
