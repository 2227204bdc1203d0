// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/component-base/term"
	"sigs.k8s.io/yaml"
)

// Widths of the output, in columns. Without a terminal it is wide, so that what is piped is not wrapped more
// than it must be.
const (
	minWidth     = 60
	defaultWidth = 160
	// minLastColumn is how narrow the last column of a table can be; with less, lines are wider than the terminal.
	minLastColumn = 24
)

// printer writes text that fits the width of the terminal.
type printer struct {
	io.Writer
	width int
}

// newPrinter returns the printer of a command's output. The environment variable COLUMNS overrides the width
// of the terminal.
func newPrinter(cmd *cobra.Command) *printer {
	p := &printer{Writer: cmd.OutOrStdout(), width: defaultWidth}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		p.width = max(columns, minWidth)
		return p
	}
	if columns, _ := terminalSize(p.Writer); columns > 0 {
		p.width = max(columns, minWidth)
	}
	return p
}

// terminalSize returns the columns and rows of a command's output; 0 if it is not a terminal.
func terminalSize(out io.Writer) (columns, rows int) {
	if e, ok := out.(escaped); ok {
		out = e.Writer
	}
	columns, rows, err := term.TerminalSize(out)
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

// escaped writes text without the characters that control a terminal: users of the cluster write messages of events
// and conditions (CVE-2021-25743).
type escaped struct{ io.Writer }

func (e escaped) Write(text []byte) (int, error) {
	if err := printers.WriteEscaped(e.Writer, string(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// paragraph prints text, broken at spaces. Lines after the first are indented.
func (p *printer) paragraph(text, indent string) {
	for i, line := range wrap(text, p.width-len(indent)) {
		if i > 0 {
			line = indent + line
		}
		fmt.Fprintln(p, line)
	}
}

// table prints rows of equal length with aligned columns, the first of which are the headers. Empty cells
// are printed as a hyphen. The last column is broken into lines if the table is wider than the terminal.
func (p *printer) table(rows [][]string) {
	if len(rows) == 0 {
		return
	}
	last := len(rows[0]) - 1
	widths := make([]int, last)
	for _, row := range rows {
		for i := range last {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell(row[i])))
		}
	}
	before := 0
	for _, w := range widths {
		before += w + 2
	}
	for _, row := range rows {
		var line strings.Builder
		for i := range last {
			text := cell(row[i])
			line.WriteString(text + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2))
		}
		for i, part := range wrap(cell(row[last]), max(p.width-before, minLastColumn)) {
			if i > 0 {
				line.WriteString("\n" + strings.Repeat(" ", before))
			}
			line.WriteString(part)
		}
		fmt.Fprintln(p, line.String())
	}
}

func cell(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// wrap breaks text at spaces into lines of at most width runes, unless a word is longer.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// unseen prints what an answer lacks because it could not be read.
func (p *printer) unseen(what []string) {
	if len(what) > 0 {
		fmt.Fprintln(p)
		p.paragraph("Could not be read, and is not in this answer: "+strings.Join(what, ", ")+".", "")
	}
}

// outputFlag is the flag --output.
type outputFlag string

// add adds the flag. formats are those besides the table, json and yaml.
func (o *outputFlag) add(cmd *cobra.Command, formats ...string) {
	formats = append([]string{"table", "json", "yaml"}, formats...)
	cmd.Flags().StringVarP((*string)(o), "output", "o", "table", strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // fails for unknown flags only
	cmd.PreRunE = func(*cobra.Command, []string) error {
		for _, format := range formats {
			if string(*o) == format {
				return nil
			}
		}
		return fmt.Errorf("--output: must be one of %s, and is %q", strings.Join(formats, ", "), string(*o))
	}
}

// print prints a report of pkg/apis/inspect as JSON or YAML, or calls table.
func (o *outputFlag) print(cmd *cobra.Command, report any, table func(*printer)) error {
	return o.printTo(newPrinter(cmd), report, table)
}

func (o *outputFlag) printTo(p *printer, report any, table func(*printer)) error {
	var text []byte
	var err error
	switch *o {
	case "json":
		if text, err = json.MarshalIndent(report, "", "  "); err == nil {
			text = append(text, '\n')
		}
	case "yaml":
		text, err = yaml.Marshal(report)
	default:
		table(p)
		return nil
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	_, err = p.Write(text)
	return err
}
