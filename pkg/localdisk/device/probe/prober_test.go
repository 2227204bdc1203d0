// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import "testing"

func TestInvalidConfig(t *testing.T) {
	finder := finderFor(t, "/var/lib/kubelet")
	for name, cfg := range map[string]Config{
		"uses are unknown":     {},
		"a relative mountinfo": {Usage: finder, HostMountinfo: "mountinfo"},
		"a relative sysfs":     {Usage: finder, Sys: "sys"},
	} {
		if p, err := New(cfg); err == nil || p != nil {
			t.Errorf("%s: no error", name)
		}
	}
}
