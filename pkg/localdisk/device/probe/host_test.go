// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// The provisioner in its container sees a folder at Path, the host at HostPath. Here the
// host's mountinfo is made from the provisioner's.
func TestHostMountsAndContainerMounts(t *testing.T) {
	const onHost = "/mnt/the host's/disks"
	escaped := strings.ReplaceAll(onHost, " ", `\040`)
	tests := map[string]struct {
		mounted bool // in the provisioner's mount namespace
		// host returns the host's mountinfo for the provisioner's lines.
		host func(path string, lines []string) []string
		want disk.Reason
	}{
		"mounted on both, at other paths": {
			mounted: true,
			host:    moved(escaped),
		},
		"the host's path has symlinks": {
			mounted: true,
			host:    moved("/somewhere/else"),
		},
		"the host has unmounted it": {
			mounted: true,
			host:    without,
			want:    disk.MountMissing,
		},
		"mounted on neither": {
			host: moved(escaped),
			want: disk.NotMountPoint,
		},
		"mounted on the host alone: mounts do not propagate": {
			host: func(path string, lines []string) []string {
				return append(moved(escaped)(path, lines), "9999 "+id(path, lines)+" 259:1 / "+escaped+"/disk rw - ext4 /dev/x rw")
			},
			want: disk.MountMissing,
		},
		"mounted on the host alone, at a path with symlinks": {
			host: func(path string, lines []string) []string {
				return append(moved("/somewhere/else")(path, lines), "9999 "+id(path, lines)+" 259:1 / /somewhere/else/disk rw - ext4 /dev/x rw")
			},
			want: disk.MountMissing,
		},
		"a network file system on the host alone": {
			host: func(path string, lines []string) []string {
				return append(moved(escaped)(path, lines), "9999 "+id(path, lines)+" 0:999 / "+escaped+"/disk rw - nfs4 h:/x rw")
			},
			want: disk.UnsupportedFilesystem,
		},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t, "a")
			f.HostPath = onHost
			entry := filepath.Join(f.Path, "disk")
			must(t, os.Mkdir(entry, 0o755))
			if s.mounted {
				mount(t, entry, "-t", "tmpfs", "-o", "size=1M", "none")
			}
			b, err := os.ReadFile("/proc/self/mountinfo")
			must(t, err)
			file := filepath.Join(t.TempDir(), "mountinfo")
			lines := s.host(f.Path, strings.Split(strings.TrimSpace(string(b)), "\n"))
			must(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))

			p := newProber(t, func(c *Config) { c.HostMountinfo = file })
			got := one(t, p, f, "disk")
			if reason(got) != s.want || got.Path != entry || got.HostPath != onHost+"/disk" {
				t.Errorf("%+v: %v, want %q", got, got.Problem, s.want)
			}
			// The host's mounts are not accessible here, only listed.
			if s.mounted && s.want == "" && !strings.Contains(string(got.Attachment), "/mount-id:") {
				t.Errorf("attachment %q, want one of a mount ID", got.Attachment)
			}
		})
	}
}

// moved puts the folder's mounts at another path.
func moved(to string) func(string, []string) []string {
	return func(path string, lines []string) []string {
		var host []string
		for _, line := range lines {
			host = append(host, strings.ReplaceAll(line, " "+path, " "+to))
		}
		return host
	}
}

// without removes the mounts in the folder.
func without(path string, lines []string) []string {
	var host []string
	for _, line := range lines {
		if !strings.Contains(line, path+"/") {
			host = append(host, line)
		}
	}
	return host
}

// id is the ID of the mount at a path.
func id(path string, lines []string) string {
	for _, line := range lines {
		if words := strings.Fields(line); words[4] == path {
			return words[0]
		}
	}
	return ""
}
