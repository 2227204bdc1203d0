// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import "testing"

func TestInvalidConfig(t *testing.T) {
	finder := finderFor(t, "/var/lib/kubelet")
	for name, cfg := range map[string]Config{
		"uses are unknown":     {},
		"a relative mountinfo": {Usage: finder, HostMountinfo: "mountinfo", Sys: "/sys", Dev: "/dev"},
		"a relative sysfs":     {Usage: finder, HostMountinfo: "/proc/1/mountinfo", Sys: "sys", Dev: "/dev"},
	} {
		if p, err := New(cfg); err == nil || p != nil {
			t.Errorf("%s: no error", name)
		}
	}
}
