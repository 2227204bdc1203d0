// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"

	"stowage.dev/stowage/test/perf/page"
)

const mebibyte = 1 << 20

// missing stands for what was not measured.
const missing = "–"

func ms(millis float64) string { return page.Millis(millis, 0) }

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
