// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/device/identity"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/device/usage"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/testing/sysfstree"
)

// TestPlatforms reads the trees of testdata. Each has in file want a line for each device: its
// path, transport, identity, state and reason.
func TestPlatforms(t *testing.T) {
	t.Parallel()
	boot, err := sysfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range trees(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archive := readTree(t, name)
			reader := unpack(t, archive)
			found, err := reader.BlockDevices()
			if err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(string(fileOf(archive, "want")), "BOOT", boot)
			if diff := gocmp.Diff(strings.Split(strings.TrimSpace(want), "\n"), linesOf(found)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// linesOf describes devices as file want does, as if nothing were on them.
func linesOf(devices []disk.BlockDevice) []string {
	var lines []string
	listed, others := decide.Listed(devices)
	for i := range devices {
		d := &devices[i]
		if problem := others[d.Path]; problem != nil {
			lines = append(lines, fmt.Sprintf("%s %s - - %s", d.Path, cmp.Or(string(d.Transport), "-"), problem.Reason))
		}
	}
	for id, paths := range listed {
		problem := decide.Ineligible(paths, "/var/lib/kubelet")
		status := decide.DiskStatus(paths, nil, problem, &disk.Superblock{})
		line := fmt.Sprintf("%s %s %s %s", status.Device, status.Transport, id, status.State)
		if problem != nil {
			line += " " + problem.Error()
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// TestUsedDisksAreIneligible: each eligible disk of each tree is not once it is used in any way,
// and no other device changes.
func TestUsedDisksAreIneligible(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, name := range trees(t) {
		before := devicesOf(t, readTree(t, name))
		for _, line := range linesOf(before) {
			device, eligible := strings.CutSuffix(line, " Eligible")
			if !eligible {
				continue
			}
			path, _, _ := strings.Cut(device, " ")
			d := before[slices.IndexFunc(before, func(d disk.BlockDevice) bool { return d.Path == path })]
			for use, files := range usesOf(t, readTree(t, name), d) {
				t.Run(name+" "+path+" "+use, func(t *testing.T) {
					t.Parallel()
					archive := readTree(t, name)
					for file, text := range files {
						add(archive, file, text)
					}
					var now []string
					for _, other := range linesOf(devicesOf(t, archive)) {
						if !strings.HasPrefix(other, "/dev/dm-9 ") && !strings.HasPrefix(other, "/dev/loop9 ") {
							now = append(now, other)
						}
					}
					var changed []string
					for _, other := range linesOf(before) {
						if !slices.Contains(now, other) {
							changed = append(changed, other)
						}
					}
					if diff := gocmp.Diff([]string{line}, changed); diff != "" || len(now) != len(before) {
						t.Errorf("changed (-want +got):\n%s\nnow:\n%s", diff, strings.Join(now, "\n"))
					}
				})
				tried++
			}
		}
	}
	if tried < 50 {
		t.Errorf("tried %d uses only", tried)
	}
}

func devicesOf(t *testing.T, archive *txtar.Archive) []disk.BlockDevice {
	t.Helper()
	found, err := unpack(t, archive).BlockDevices()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// usesOf returns, for each way to use a device, what that adds to the files of a tree.
func usesOf(t *testing.T, archive *txtar.Archive, d disk.BlockDevice) map[string]map[string]string {
	t.Helper()
	base := filepath.Base(d.Path)
	folder := ""
	for _, file := range archive.Files {
		if strings.HasSuffix(file.Name, "/"+base+"/dev") {
			folder = filepath.Dir(file.Name)
		}
	}
	if folder == "" {
		t.Fatalf("%s is not in the tree", d.Path)
	}
	number := func(number string) map[string]string { return map[string]string{"dev": number, "size": "2048"} }
	in := func(folder string, more ...map[string]string) map[string]string {
		files := map[string]string{}
		for _, all := range more {
			for name, text := range all {
				files[folder+"/"+name] = text
			}
		}
		return files
	}
	mount := func(number, at string) map[string]string {
		return map[string]string{"proc/1/mountinfo": "99 29 " + number + " / " + at + " rw - ext4 none rw\n"}
	}
	part := map[string]string{"partition": "1"}
	withPart := in(folder+"/"+base+"p1", number("250:99"), part)
	mounted := maps.Clone(withPart)
	maps.Copy(mounted, mount("250:99", "/data"))
	return map[string]map[string]string{
		"mounted":             mount(d.Number, "/data"),
		"mounted by kubelet":  mount(d.Number, "/var/lib/kubelet/pods/1/volumes/x/mount"),
		"its node is mounted": {"proc/1/mountinfo": "98 29 0:6 / /dev rw - devtmpfs none rw\n99 29 0:6 /" + base + " /pod/disk rw - devtmpfs none rw\n"},
		"swap":                {"proc/swaps": d.Path + " partition 1 0 -2\n"},
		"held":                in("sys/devices/virtual/block/dm-9", number("252:9"), map[string]string{"slaves/" + base: ""}),
		"a loop device":       in("sys/devices/virtual/block/loop9", number("7:9"), map[string]string{"loop/backing_file": d.Path}),
		"a partition":         withPart,
		"a mounted partition": mounted,
		"read-only":           in(folder, map[string]string{"ro": "1"}),
		"no medium":           in(folder, map[string]string{"size": "0"}),
	}
}

// add adds a file to an archive, or a line to one of proc.
func add(archive *txtar.Archive, name, text string) {
	for i := range archive.Files {
		if file := &archive.Files[i]; file.Name == name {
			if strings.HasPrefix(name, "proc/") {
				text = string(file.Data) + text
			}
			file.Data = []byte(text)
			return
		}
	}
	if name == "proc/swaps" {
		text = "Filename\tType\tSize\tUsed\tPriority\n" + text
	}
	archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(text)})
}

// trees returns the names of the trees.
func trees(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 8 {
		t.Fatalf("found the trees %q, %v", files, err)
	}
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".txtar"))
	}
	return names
}

func readTree(t *testing.T, name string) *txtar.Archive {
	t.Helper()
	return sysfstree.Read(t, "testdata/"+name+".txtar")
}

func fileOf(archive *txtar.Archive, name string) []byte {
	for _, file := range archive.Files {
		if file.Name == name {
			return file.Data
		}
	}
	return nil
}

// unpack returns the reader of a tree.
func unpack(t *testing.T, archive *txtar.Archive) Reader {
	t.Helper()
	root := sysfstree.Unpack(t, archive)
	sys := filepath.Join(root, "sys")
	finder, err := usage.New(usage.Config{
		Mountinfo: filepath.Join(root, "proc/1/mountinfo"), Swaps: filepath.Join(root, "proc/swaps"), Sys: sys, Dev: "/dev", KubeletDir: "/var/lib/kubelet",
	})
	if err != nil {
		t.Fatal(err)
	}
	return Reader{Dev: "/dev", Identities: identity.Host{Sys: sys, Machine: "m1"}, Usage: finder}
}

// TestRulesSelectEligibleDisks: of each tree, a class whose rules match every disk gets the eligible
// ones whose name lasts, each of them by its own link. Of two such classes, neither gets any.
func TestRulesSelectEligibleDisks(t *testing.T) {
	t.Parallel()
	all := decide.DeviceRules{Include: []decide.DeviceRule{{}}}
	selected := 0
	for _, name := range trees(t) {
		devices := devicesOf(t, readTree(t, name))
		var want []string
		for _, line := range linesOf(devices) {
			if eligible, ok := strings.CutSuffix(line, " Eligible"); ok && !strings.Contains(eligible, " weak:") {
				path, _, _ := strings.Cut(eligible, " ")
				want = append(want, path)
			}
		}
		one := decide.Select(decide.Selection{Devices: devices, Classes: map[string]decide.DeviceRules{"a": all}})
		if diff := gocmp.Diff(want, slices.Sorted(maps.Values(one.Links))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		two := decide.Select(decide.Selection{Devices: devices, Classes: map[string]decide.DeviceRules{"a": all, "b": all}})
		if len(two.Links) != 0 || len(two.Contested) != 2*len(want) {
			t.Errorf("%s: two classes get %v, want %d contested disks", name, two.Links, len(want))
		}
		selected += len(want)
	}
	if selected < 5 {
		t.Errorf("selected %d disks only", selected)
	}
}

// TestLinks: the links by ID and by path of a device are found, others are not.
func TestLinks(t *testing.T) {
	t.Parallel()
	archive := readTree(t, "bare-metal")
	reader := unpack(t, archive)
	devices := devicesOf(t, archive)
	reader.Dev = t.TempDir()
	base := filepath.Base(devices[0].Path)
	if err := os.WriteFile(filepath.Join(reader.Dev, base), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"by-id/wwn-1", "by-path/pci-1", "by-uuid/1"} {
		at := filepath.Join(reader.Dev, "disk", link)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../"+base, at); err != nil {
			t.Fatal(err)
		}
	}
	found, err := reader.BlockDevices()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(reader.Dev, "disk/by-id/wwn-1"), filepath.Join(reader.Dev, "disk/by-path/pci-1")}
	if diff := gocmp.Diff(want, found[0].Links); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
