// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"strconv"
	"strings"
)

const mebibyte = 1 << 20

// missing stands for what was not measured.
const missing = "–"

func ms(millis float64) string {
	switch {
	case millis < 10:
		return fmt.Sprintf("%.1f ms", millis)
	case millis >= 1000:
		return fmt.Sprintf("%.2f s", millis/1000)
	default:
		return fmt.Sprintf("%.0f ms", millis)
	}
}

// count is a number, with commas as the other pages have them.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func mib(n int64) string {
	if n < 100*mebibyte && n%mebibyte != 0 {
		return fmt.Sprintf("%.1f MiB", float64(n)/mebibyte)
	}
	return fmt.Sprintf("%.0f MiB", float64(n)/mebibyte)
}

// bytes are in MiB, or in KiB where there are few.
func bytes(n int64) string {
	switch {
	case n == 0:
		return "0"
	case n < mebibyte:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	default:
		return mib(n)
	}
}

// table writes a table whose first column has names and whose others have figures.
func table(columns string, rows [][]string) string {
	names := strings.Split(columns, " | ")
	var b strings.Builder
	b.WriteString("| " + strings.Join(names, " | ") + " |\n| ---" + strings.Repeat(" | --:", len(names)-1) + " |\n")
	for _, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return b.String()
}
