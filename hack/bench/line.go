// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
)

// line is one line of progress. On a terminal it is written over with each
// step; elsewhere only its end is written.
type line struct {
	head     string
	terminal bool
}

func newLine(head string) *line {
	info, err := os.Stdout.Stat()
	l := &line{head: head, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
	l.show("")
	return l
}

func (l *line) show(format string, args ...any) {
	if l.terminal {
		fmt.Printf("\r\x1b[K%s %s", l.head, fmt.Sprintf(format, args...))
	}
}

func (l *line) end(text string) {
	if l.terminal {
		fmt.Print("\r\x1b[K")
	}
	fmt.Println(l.head, text)
}
