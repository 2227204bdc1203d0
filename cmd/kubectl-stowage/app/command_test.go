// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "testing"

// TestOnThisMachine: answers of an API server on this machine are not compressed.
func TestOnThisMachine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host string
		want bool
	}{
		"IPv4":               {"https://127.0.0.1:6443", true},
		"IPv6":               {"https://[::1]:6443", true},
		"name":               {"https://localhost:6443/path", true},
		"without a scheme":   {"127.0.0.1:6443", true},
		"another machine":    {"https://10.0.0.1:6443", false},
		"name that is alike": {"https://localhost.example.com", false},
		"no URL":             {"https://:::", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := onThisMachine(tc.host); got != tc.want {
				t.Errorf("onThisMachine(%q) = %v, want %v", tc.host, got, tc.want)
			}
		})
	}
}
