// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// BenchmarkCleanOrdinaryTree cleans 100,000 files, 5 directories deep.
func BenchmarkCleanOrdinaryTree(b *testing.B) {
	const folders, files = 1000, 100
	root := b.TempDir()
	r, err := Open(root, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		for i := range folders {
			at := fmt.Sprintf("%s/%d/%d/%d/%d", root, i%10, i/10%10, i/100%10, i)
			if err := os.MkdirAll(at, 0o700); err != nil {
				b.Fatal(err)
			}
			for j := range files {
				if err := os.WriteFile(fmt.Sprintf("%s/file %d", at, j), nil, 0o600); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.StartTimer()
		if err := r.do(func(fd int) error { return r.passes(b.Context(), fd, &reporter{every: time.Hour}) }); err != nil {
			b.Fatal(err)
		}
	}
}
