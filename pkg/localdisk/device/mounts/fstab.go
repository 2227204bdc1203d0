// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package mounts

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// FstabEntry is a file system that the administrator has written down in fstab.
type FstabEntry struct {
	// Source is what is to be mounted, as written ("UUID=..."), Point where.
	Source, Point string
	FSType        string
	// NoAuto reports whether it is not mounted at boot, and may therefore be absent.
	NoAuto bool
}

// Fstab reads the file systems of an fstab file. A missing file has none. Invalid lines are
// skipped, as by mount(8): one bad line must not hide the others.
func Fstab(file string) ([]FstabEntry, error) {
	lines, err := fields(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read fstab: %w", err)
	}
	var found []FstabEntry
	for _, f := range lines {
		if strings.HasPrefix(f[0], "#") || len(f) < 3 {
			continue
		}
		e := FstabEntry{Source: unescape(f[0]), Point: unescape(f[1]), FSType: unescape(f[2])}
		if !path.IsAbs(e.Point) {
			continue // swap has "none"
		}
		e.Point = path.Clean(e.Point)
		if len(f) > 3 {
			e.NoAuto = slices.Contains(strings.Split(f[3], ","), "noauto")
		}
		found = append(found, e)
	}
	return found, nil
}

// Swap is swap space in use.
type Swap struct {
	// Path is the device or the file.
	Path string
	// File reports whether it is a file.
	File bool
}

// Swaps reads the swap space in use from a file such as /proc/swaps. A kernel without swap has
// no such file.
func Swaps(file string) ([]Swap, error) {
	lines, err := fields(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read swaps: %w", err)
	}
	var found []Swap
	for _, f := range lines {
		if len(f) < 2 || f[0] == "Filename" {
			continue
		}
		found = append(found, Swap{Path: unescape(f[0]), File: f[1] != "partition"})
	}
	return found, nil
}

// fields returns the words of each line that has any.
func fields(file string) ([][]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines [][]string
	s := bufio.NewScanner(f)
	for s.Scan() {
		if words := strings.Fields(s.Text()); len(words) > 0 {
			lines = append(lines, words)
		}
	}
	return lines, s.Err()
}

// unescape replaces \ooo by the byte, and leaves invalid escapes unchanged.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if value, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(value))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
