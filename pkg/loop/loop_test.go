// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package loop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/loop"
)

// TestRunPaced: a key is reconciled again after nine times as long as it took, another one meanwhile.
func TestRunPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		queue, begun := loop.NewQueue("test", time.Second, time.Minute), time.Now()
		at := map[string][]time.Duration{}
		queue.Add("key")
		loop.RunPaced(ctx, queue, func(_ context.Context, key string) (time.Duration, error) {
			at[key] = append(at[key], time.Since(begun))
			if queue.Add("key"); key == "key" {
				queue.Add("another")
			}
			<-time.After(time.Second)
			if len(at["key"]) == 3 {
				cancel()
			}
			return 0, nil
		})
		want := map[string][]time.Duration{"key": {0, 10 * time.Second, 20 * time.Second}, "another": {time.Second, 11 * time.Second}}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("reconciled at (-want +got):\n%s", diff)
		}
	})
}

// TestRun: failed keys are requeued with a growing delay, others after the returned time, and
// nothing is reconciled after the end.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		queue, begun := loop.NewQueue("test", time.Second, time.Minute), time.Now()
		var at []time.Duration
		queue.Add("key")
		loop.Run(ctx, queue, 1, func(context.Context, string) (time.Duration, error) {
			at = append(at, time.Since(begun))
			switch len(at) {
			case 1:
				return 0, errors.New("failed")
			case 2:
				return 0, loop.ErrStale
			case 3:
				return time.Hour, nil
			default:
				queue.Add("another")
				cancel()
				return 0, nil
			}
		})
		if diff := cmp.Diff([]time.Duration{0, time.Second, 3 * time.Second, 3*time.Second + time.Hour}, at); diff != "" {
			t.Errorf("reconciled at (-want +got):\n%s", diff)
		}
	})
}
