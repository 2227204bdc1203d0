// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/integration/node"
)

// TestBlockMethods: with any cleaning method of a class, data on a device is
// removed before its volume is Available again.
func TestBlockMethods(t *testing.T) {
	n := newNode(t)
	script := program(t, n, "erase", `test "$1" = all && exec dd if=/dev/zero of="$LOCAL_PV_BLKDEVICE" bs=1M count=16 conv=fsync,notrunc status=none`)
	methods := map[string][]string{
		"zero":     {"zero"},
		"dd-zero":  {"dd-zero", "2"},
		"shred":    {"shred", "1"},
		"discard":  {"blkdiscard"},
		"script":   {"/scripts/dd_zero.sh", "2"},
		"external": {script, "all"},
	}
	devices, classes := map[string]string{}, map[string]string{}
	for name, command := range methods {
		classes[name] = n.AddClass(name, map[string]any{"volumeMode": "Block", "blockCleanerCommand": command})
		n.Env.CreateClass(n.Env.Class(name).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
		devices[name] = n.Attach(n.Image(name+".raw", "16M"))
		n.Link(devices[name], n.PathOf(classes[name], "disk"))
	}
	n.Start()
	volumes := map[string]*corev1.PersistentVolume{}
	for name, class := range classes {
		volumes[name] = n.Claim(class, "disk")
		plant(t, devices[name], planted)
		n.Unclaim(volumes[name])
	}
	for name, class := range classes {
		n.WaitRepublished(class, "disk", volumes[name])
		if !blank(t, devices[name]) {
			t.Errorf("%s: a device is free that holds data", name)
		}
		n.Env.WaitEvent(metav1.NamespaceDefault, volumes[name].Name, "VolumeCleaned")
	}
}

// TestFSReset: the default for a device that kubelet formats leaves no file system that
// could be mounted again, and no known signature.
func TestFSReset(t *testing.T) {
	n := newNode(t)
	formatted := n.Attach(n.Image("formatted.raw", "16M"))
	n.Link(formatted, n.PathOf(n.Files, "formatted"))
	named := n.AddClass("named", map[string]any{"volumeMode": "Block", "blockCleanerCommand": []string{"/scripts/quick_reset.sh"}})
	n.Env.CreateClass(n.Env.Class("named").ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	raw := n.Attach(n.Image("named.raw", "16M"))
	n.Link(raw, n.PathOf(named, "disk"))
	n.Start()
	for _, disk := range []struct{ class, name, device string }{{n.Files, "formatted", formatted}, {named, "disk", raw}} {
		volume := n.Claim(disk.class, disk.name)
		n.Command("mkfs.ext4", "-q", disk.device)
		n.Release(volume)
		n.WaitRepublished(disk.class, disk.name, volume)
		if left := strings.TrimSpace(n.Command("wipefs", "--no-act", disk.device)); left != "" {
			t.Errorf("%s is free and has\n%s", disk.name, left)
		}
	}
}

// TestFilesystemCommand: a command of the class cleans file systems, and a disk on which it
// leaves data does not count as clean.
func TestFilesystemCommand(t *testing.T) {
	n := newNode(t)
	slots(n, "good", "bad")
	script := program(t, n, "empty", `case "$LOCAL_PV_FILESYSTEM" in */bad) test -e "`+n.Path("repaired")+`" || exit 3;; esac
exec find "$LOCAL_PV_FILESYSTEM" -mindepth 1 -maxdepth 1 ! -name lost+found -exec rm -r -- {} +`)
	n.Set(n.Files, "fsCleanerCommand", []string{script})
	n.Start()
	good, bad := used(n, "good"), used(n, "bad")
	n.Unclaim(bad)
	n.Release(good)
	n.WaitRepublished(n.Files, "good", good)
	emptied(t, n, "good")
	n.Env.WaitEvent(metav1.NamespaceDefault, bad.Name, "VolumeFailedDelete", "3")
	untouched(t, n.PathOf(n.Files, "bad"))
	if now := n.Volume(n.Files, "bad"); now == nil || now.UID != bad.UID {
		t.Error("a volume whose clean has failed is deleted")
	}
	if err := os.WriteFile(n.Path("repaired"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.WaitRepublished(n.Files, "bad", bad)
	emptied(t, n, "bad")
}

// program writes a shell script into the node's folder.
func program(t *testing.T, n *node.Node, name, text string) string {
	t.Helper()
	path := n.Path(name + ".sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh -e\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHostileFiles: the clean removes all files that a user can create in a volume, and restores
// the root's attributes.
func TestHostileFiles(t *testing.T) {
	n := newNode(t)
	slots(n, "disk")
	keep(t, n.Path("outside"))
	root := n.PathOf(n.Files, "disk")
	if err := os.Chmod(root, 0o711); err != nil { // the administrator's choice
		t.Fatal(err)
	}
	n.Start()
	volume := used(n, "disk")
	before := n.Command("stat", "--format=%u:%g %a", root)
	for _, command := range [][]string{
		{"mkdir", "-p", root + "/deep/" + strings.Repeat("er/", 200)},
		{"ln", "-s", n.Path("outside"), root + "/link"},
		{"mkfifo", root + "/pipe"},
		{"mknod", root + "/null", "c", "1", "3"},
		{"touch", root + "/ \n-rf *"},
		{"chattr", "+i", root + "/secret"},
		{"chattr", "+a", root + "/deep"},
		{"chown", "2000:2000", root},
		{"chmod", "2770", root},
		{"setfacl", "-m", "u:1234:rwx", root},
		{"setfattr", "-n", "user.left", "-v", "here", root},
		{"chattr", "+i", root},
	} {
		if _, err := exec.LookPath(command[0]); err == nil {
			n.Command(command[0], command[1:]...)
		}
	}
	n.Release(volume)
	n.WaitRepublished(n.Files, "disk", volume)
	emptied(t, n, "disk")
	untouched(t, n.Path("outside"))
	if after := n.Command("stat", "--format=%u:%g %a", root); after != before {
		t.Errorf("the root of the volume is %s and was %s", after, before)
	}
	if out, err := exec.Command("getfattr", "--absolute-names", "--dump", "--match=-", root).Output(); err == nil && len(out) > 0 {
		t.Errorf("the root of the volume has attributes of its first user:\n%s", out)
	}
}
