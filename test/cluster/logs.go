// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// tailLines and tailBytes limit how much of a log an error message shows.
	tailLines = 15
	tailBytes = 16 << 10
	// dumpLines and dumpBytes limit how much DumpLogs shows of each log.
	dumpLines = 50
	dumpBytes = 256 << 10
)

// DumpLogs writes the end of each component's log to w. It works until Stop,
// and after it when the cluster's folder is kept.
func (c *Cluster) DumpLogs(w io.Writer) error {
	logs, err := filepath.Glob(c.folder.log("*"))
	if err != nil {
		return err
	}
	slices.Sort(logs)
	for _, path := range logs {
		text, err := tail(path, dumpLines, dumpBytes)
		if err != nil {
			return fmt.Errorf("read a component's log: %w", err)
		}
		if text == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "==== last lines of %s ====\n%s\n", path, text); err != nil {
			return err
		}
	}
	return nil
}

// tailMessage is the end of a log as the last part of an error message.
func tailMessage(path string) string {
	text, err := tail(path, tailLines, tailBytes)
	switch {
	case err != nil:
		return "; its log cannot be read: " + err.Error()
	case text == "":
		return "; its log is empty: " + path
	default:
		return fmt.Sprintf("; last lines of %s:\n%s", path, text)
	}
}

// tail returns the last lines of a file, without the final line break.
func tail(path string, lines int, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-limit), limit))
	if err != nil {
		return "", err
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n"), nil
}
