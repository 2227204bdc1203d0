// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// These tests compare with util-linux, not with the table of signatures: what its tools find
// must be found, and nothing that they find may be left.

// wipefs returns what wipefs finds.
func wipefs(t *testing.T, dev string) string {
	t.Helper()
	return sh(t, "wipefs", "--no-act", "--parsable", "--noheadings", dev)
}

// blkid returns what blkid finds. kubelet runs it before it formats a device.
func blkid(t *testing.T, dev string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "blkid", "--probe", dev).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 {
		return "" // nothing found
	}
	if err != nil {
		t.Fatalf("blkid: %v\n%s", err, out)
	}
	return string(out)
}

// known are tools that make what tenants leave behind. DEV is the device, KEY a
// file with some bytes.
var known = map[string][]string{
	"ext2":                {"mkfs.ext2", "-q", "DEV"},
	"ext3":                {"mkfs.ext3", "-q", "DEV"},
	"ext4":                {"mkfs.ext4", "-q", "DEV"},
	"ext4, small blocks":  {"mkfs.ext4", "-q", "-b", "1024", "DEV"},
	"xfs":                 {"mkfs.xfs", "-q", "-f", "DEV"},
	"btrfs":               {"mkfs.btrfs", "-q", "-f", "DEV"},
	"vfat":                {"mkfs.vfat", "-I", "DEV"},
	"vfat, 16 bit":        {"mkfs.vfat", "-I", "-F", "16", "DEV"},
	"minix":               {"mkfs.minix", "DEV"},
	"bfs":                 {"mkfs.bfs", "DEV"},
	"swap":                {"mkswap", "DEV"},
	"swap, large pages":   {"mkswap", "-p", "65536", "DEV"},
	"LVM":                 {"pvcreate", "-ff", "-y", "--metadatacopies", "2", "--config", "devices{use_devicesfile=0}", "DEV"},
	"LUKS1":               {"cryptsetup", "-q", "luksFormat", "--type", "luks1", "--pbkdf-force-iterations", "1000", "--key-file", "KEY", "DEV"},
	"LUKS2":               {"cryptsetup", "-q", "luksFormat", "--type", "luks2", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "KEY", "DEV"},
	"LUKS2, large header": {"cryptsetup", "-q", "luksFormat", "--type", "luks2", "--luks2-metadata-size", "4m", "--luks2-keyslots-size", "16m", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "KEY", "DEV"},
	"GPT":                 {"sgdisk", "--new=1:0:0", "DEV"},
	"MBR":                 {"sgdisk", "--new=1:0:0", "--gpttombr=1", "DEV"},
	"f2fs":                {"mkfs.f2fs", "-q", "-f", "DEV"},
	"ntfs":                {"mkfs.ntfs", "-q", "-F", "-f", "DEV"},
	"exfat":               {"mkfs.exfat", "DEV"},
	"nilfs2":              {"mkfs.nilfs2", "-q", "-f", "DEV"},
	"udf":                 {"mkudffs", "DEV"},
	"jfs":                 {"mkfs.jfs", "-q", "DEV"},
	"reiserfs":            {"mkfs.reiserfs", "-q", "-ff", "DEV"},
	"ocfs2":               {"mkfs.ocfs2", "-q", "-F", "-x", "-M", "local", "DEV"},
	"gfs2":                {"mkfs.gfs2", "-O", "-q", "-p", "lock_nolock", "DEV"},
	"bcache":              {"make-bcache", "-B", "DEV"},
}

func TestSignaturesOfTools(t *testing.T) {
	need(t, "wipefs", "blkid")
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("secret of no worth"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, command := range known {
		t.Run(name, func(t *testing.T) {
			need(t, command[0])
			dev := loop(t, blank(t, 400*mib+512))
			args := strings.Split(strings.NewReplacer("DEV", dev, "KEY", key).Replace(strings.Join(command, "\x00")), "\x00")
			sh(t, args[0], args[1:]...)
			resetAndCheck(t, dev)
		})
	}
}

// resetAndCheck resets a device on which util-linux finds something.
func resetAndCheck(t *testing.T, dev string) {
	t.Helper()
	before := wipefs(t, dev)
	if before == "" && blkid(t, dev) == "" {
		t.Fatal("nothing was planted that util-linux knows")
	}
	content, what, err := Inspect(t.Context(), dev, disk.Filesystem)
	if content != disk.ContentSome || what == "" || err != nil {
		t.Fatalf("Inspect returns %q, %q, %v, where wipefs finds\n%s", content, what, err, before)
	}
	if err := Run(t.Context(), target(t, dev, disk.Filesystem), nil); err != nil {
		t.Fatal(err)
	}
	if left := wipefs(t, dev) + blkid(t, dev); left != "" {
		t.Errorf("left: %s", left)
	}
	for _, mode := range []disk.Mode{disk.Filesystem, disk.Block} {
		if content, what, err := Inspect(t.Context(), dev, mode); content != disk.ContentNone || what != "" || err != nil {
			t.Errorf("Inspect, %s, returns %q, %q, %v", mode, content, what, err)
		}
	}
}

// put writes bytes to a file.
func put(t *testing.T, file string, at int64, data string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(data), at); err != nil {
		t.Fatal(err)
	}
}

// md makes the part of a superblock of Linux RAID that is examined.
func md(major, minor uint32, at int64) string {
	sb := make([]byte, 256)
	binary.LittleEndian.PutUint32(sb, 0xa92b4efc)
	binary.LittleEndian.PutUint32(sb[4:], major)
	binary.LittleEndian.PutUint32(sb[8:], minor)
	binary.LittleEndian.PutUint64(sb[144:], uint64(at/512))
	return string(sb)
}

func TestPlantedSignatures(t *testing.T) {
	need(t, "wipefs", "blkid")
	const size = 80*mib + 3*512
	repeat := func(data string, places ...int64) map[int64]string {
		all := map[int64]string{}
		for _, at := range places {
			all[at] = data
		}
		return all
	}
	uber := uberblocks(size)
	md10 := mdAtEnd(size)[1]
	tests := map[string]map[int64]string{
		"Linux RAID 0.90":             {mdAtEnd(size)[0]: md(0, 90, 0)},
		"Linux RAID 1.0":              {md10: md(1, 0, md10)},
		"Linux RAID 1.1":              {0: md(1, 0, 0)},
		"Linux RAID 1.2":              {4096: md(1, 0, 4096)},
		"ZFS, all labels":             repeat("\x0c\xb1\xba\x00\x00\x00\x00\x00", uber...),
		"ZFS, the labels at the end":  repeat("\x0c\xb1\xba\x00\x00\x00\x00\x00", uber[len(uber)/2:]...),
		"Promise RAID":                {size - 3087*512: "Promise Technology, Inc."},
		"VMFS":                        {mib: "\x0d\xd0\x01\xc0", 2 * mib: "\x5e\xf1\xab\x2f"},
		"an ISO 9660":                 {32 * kib: "\x01CD001\x01", 34 * kib: "\xffCD001\x01"},
		"UFS, the furthest":           {256*kib + 1372: "\x19\x01\x54\x19"},
		"DRBD":                        {size - 4096 + 60: "\x83\x74\x02\x6b"},
		"swap that holds a suspended": {4086: "S1SUSPEND"},
		"BitLocker":                   {0: "\xeb\x52\x90-FVE-FS-"},
		"Stratis and too little of others": {32: "NXSB", 512 + 4: "!Stra0tis\x86\xff\x02^\x41rh",
			65600: "_BHRfS_M", 65536 + 48: "\x00\x00\x01"},
	}
	for name, planted := range tests {
		t.Run(name, func(t *testing.T) {
			file := blank(t, size)
			for at, data := range planted {
				put(t, file, at, data)
			}
			if wipefs(t, file)+blkid(t, file) == "" {
				t.Skip("this util-linux does not recognize it")
			}
			resetAndCheck(t, loop(t, file))
		})
	}
}

func TestSuperblockCopiesOnALargeDisk(t *testing.T) {
	const size = 300*gib + 512
	file := blank(t, size)
	copies := []int64{64 * mib, gib, 4 * gib, 16 * gib, 64 * gib, 256 * gib}
	for _, at := range copies {
		put(t, file, at+64, "_BHRfS_M")
	}
	dev := loop(t, file)
	if content, what, err := Inspect(t.Context(), dev, disk.Filesystem); content != disk.ContentSome || err != nil {
		t.Errorf("Inspect returns %q, %q, %v", content, what, err)
	}
	if err := Run(t.Context(), target(t, dev, disk.Filesystem), nil); err != nil {
		t.Fatal(err)
	}
	d, err := openDevice(dev, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, at := range copies {
		got := make([]byte, 512)
		if _, err := d.ReadAt(got, at); err != nil || firstSet(got) >= 0 {
			t.Errorf("the copy at %d is left: %v", at, err)
		}
	}
}

// wordsFor are names of libblkid that the table has under another name.
var wordsFor = map[string]string{
	"ext2": "ext2/ext3/ext4/jbd", "ext3": "ext2/ext3/ext4/jbd", "ext4": "ext2/ext3/ext4/jbd",
	"ext4dev": "ext2/ext3/ext4/jbd", "jbd": "ext2/ext3/ext4/jbd",
	"gfs": "gfs/gfs2", "gfs2": "gfs/gfs2", "squashfs3": "squashfs",
	// Of newer versions: a magic of two letters that encryption hides, and a cluster's
	// heartbeat. fs-reset zeroes where they are.
	"cs_fvault2": "", "opensvc_hb": "",
}

func TestEveryFormatOfUtilLinux(t *testing.T) {
	if _, err := exec.LookPath("blkid"); err != nil {
		t.Skip("needs blkid")
	}
	ours := map[string]bool{"": true}
	for _, s := range signatures() {
		ours[s.name] = true
	}
	for name := range strings.FieldsSeq(sh(t, "blkid", "-k")) {
		word, renamed := wordsFor[name]
		if !renamed {
			word = name
		}
		if !ours[word] {
			t.Errorf("nothing in the table for %s", name)
		}
	}
}
