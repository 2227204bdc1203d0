// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMissing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		user bool
		lack []string
		want string
	}{
		"all is there": {},
		"who is not root is told so": {
			user: true, want: "real nodes need root",
		},
		"packages are named once": {
			lack: []string{"runc", "containerd", "ctr", "/usr/lib/cni/bridge"},
			want: "real nodes need /usr/lib/cni/bridge, containerd, ctr, runc: apt-get install containerd containernetworking-plugins runc",
		},
		"both": {
			user: true, lack: []string{"ip"}, want: "real nodes need root\nreal nodes need ip: apt-get install iproute2",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := missing(!test.user, func(tool string) bool { return !slices.Contains(test.lack, tool) }); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}
