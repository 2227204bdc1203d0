// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package tool_test

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/migrate/tool"
)

// TestBatchBrokenOff: running calls end, no more start, and successes are counted.
func TestBatchBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	all := make([]int, 1000)
	for i := range all {
		all[i] = i
	}
	done, err := tool.Batch[int]{All: all, What: "volumes", Write: func(ctx context.Context, i *int) (string, error) {
		switch {
		case *i < 100:
			return strconv.Itoa(*i), nil
		case *i == 100:
			cancel()
		}
		<-ctx.Done()
		return strconv.Itoa(*i), ctx.Err()
	}}.Run(ctx, &out)
	if err == nil || !strings.Contains(err.Error(), "interrupted after 100 of 1000 volumes") || done != 100 {
		t.Errorf("done %d, error %v", done, err)
	}
	if out.Len() > 0 {
		t.Errorf("it reports volumes that were not tried: %s", &out)
	}
}
