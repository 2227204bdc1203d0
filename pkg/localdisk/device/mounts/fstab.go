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
	"strconv"
	"strings"
)

// Fstab returns the mount points of an fstab file. A missing file has none. Invalid lines are
// skipped, as by mount(8): one bad line must not hide the others.
func Fstab(file string) ([]string, error) {
	lines, err := fields(file)
	if err != nil {
		return nil, fmt.Errorf("read fstab: %w", err)
	}
	var points []string
	for _, f := range lines {
		if strings.HasPrefix(f[0], "#") || len(f) < 3 {
			continue
		}
		if point := unescape(f[1]); path.IsAbs(point) { // swap has "none"
			points = append(points, path.Clean(point))
		}
	}
	return points, nil
}

// Swaps returns the devices and files that are swap space in use, from a file such as
// /proc/swaps. A kernel without swap has no such file.
func Swaps(file string) ([]string, error) {
	lines, err := fields(file)
	if err != nil {
		return nil, fmt.Errorf("read swaps: %w", err)
	}
	var paths []string
	for _, f := range lines {
		if len(f) >= 2 && f[0] != "Filename" {
			paths = append(paths, unescape(f[0]))
		}
	}
	return paths, nil
}

// fields returns the words of each line that has any; nothing for a missing file.
func fields(file string) ([][]string, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
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
	if !strings.Contains(s, `\`) {
		return s
	}
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
