// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/device/host"
	"stowage.dev/stowage/pkg/localdisk/device/ticket"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/testing/commands"
)

// slotFor is a folder with a mounted file system "files" and a link "raw" to a device,
// both full of data, and tickets for them.
type slotFor struct {
	folder, device string
	tickets        ticket.Folder
	identities     map[string]disk.Identity
}

func newSlots(t *testing.T) *slotFor {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("to mount file systems and to attach loop devices takes root")
	}
	base := t.TempDir()
	s := &slotFor{folder: filepath.Join(base, "disks"), tickets: ticket.Folder(filepath.Join(base, "tickets")), identities: map[string]disk.Identity{}}
	mount := filepath.Join(s.folder, "files")
	image := filepath.Join(base, "image")
	if err := os.MkdirAll(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, bytes.Repeat([]byte("secret"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(mount, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", image).Output()
	if err != nil {
		t.Skipf("attach a loop device: %v", err)
	}
	s.device = strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", s.device).Run() })
	if err := os.Symlink(s.device, filepath.Join(s.folder, "raw")); err != nil {
		t.Fatal(err)
	}
	s.identify(t)
	return s
}

// identify issues the tickets of the disks.
func (s *slotFor) identify(t *testing.T) {
	t.Helper()
	node, err := host.New(host.Config{Machine: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]disk.Mode{"files": disk.Filesystem, "raw": disk.Block} {
		fact, err := node.Find(t.Context(), disk.Folder{Class: "c", HostPath: s.folder, Path: s.folder, Mode: mode}, name)
		if err != nil {
			t.Fatal(err)
		}
		s.identities[name] = fact.Identity
		if err := s.tickets.Issue(fact.Identity, "a"); err != nil {
			t.Fatal(err)
		}
	}
}

// args returns the flags of a Job for one of the two.
func (s *slotFor) args(t *testing.T, name string) map[string]string {
	t.Helper()
	mode := disk.Filesystem
	if name == "raw" {
		mode = disk.Block
	}
	return map[string]string{
		"class": "c", "directory": s.folder, "name": name, "identity": string(s.identities[name]), "volume-mode": string(mode),
		"ticket": filepath.Join(string(s.tickets), cleanjob.Ticket(s.identities[name], "a")), "result": filepath.Join(t.TempDir(), "result"),
	}
}

// clean runs the command as a Job's container does.
func clean(t *testing.T, args map[string]string, method ...string) (cleanjob.Result, error) {
	t.Helper()
	var words []string
	for name, value := range args {
		words = append(words, "--"+name+"="+value)
	}
	if len(method) > 0 {
		words = append(append(words, "--"), method...)
	}
	_, err := commands.Output(t, newCleanCommand(), words...)
	text, readErr := os.ReadFile(args["result"])
	if readErr != nil {
		t.Fatalf("%v, and no result: %v", err, readErr)
	}
	return cleanjob.Decode(string(text)), err
}

// content returns what is left: the file's name, "secret" of the device, or nothing.
func (s *slotFor) content(t *testing.T, name string) string {
	t.Helper()
	if name == "raw" {
		text, err := os.ReadFile(s.device)
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.Trim(text[:min(len(text), 6)], "\x00"))
	}
	entries, err := os.ReadDir(filepath.Join(s.folder, name))
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "secret" }) {
		return "secret"
	}
	return ""
}

func TestClean(t *testing.T) {
	for name, method := range map[string][]string{
		"files": nil,
		"raw":   {"dd-zero", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlots(t)
			result, err := clean(t, s.args(t, name), method...)
			if err != nil || !result.Clean {
				t.Fatalf("%+v, %v", result, err)
			}
			if left := s.content(t, name); left != "" {
				t.Errorf("%s holds %q", name, left)
			}
		})
	}
}

// TestCleanRefuses: a disk that is not exactly the requested one is not cleaned.
func TestCleanRefuses(t *testing.T) {
	s := newSlots(t)
	for name, test := range map[string]struct {
		slot    string
		change  func(args map[string]string)
		method  []string
		want    disk.Reason
		message string
	}{
		"no ticket":                {slot: "files", change: func(a map[string]string) { a["ticket"] += "b" }, want: withdrawn},
		"another disk":             {slot: "files", change: func(a map[string]string) { a["identity"] = "fs:other:/" }, want: disk.Replaced},
		"another device":           {slot: "raw", change: func(a map[string]string) { a["identity"] = "wwn:0x5000" }, want: disk.Replaced},
		"no disk":                  {slot: "files", change: func(a map[string]string) { a["name"] = "file*" }, want: disk.Missing},
		"a path for a name":        {slot: "files", change: func(a map[string]string) { a["name"] = "../disks/files" }, message: "--name"},
		"the folder for its name":  {slot: "files", change: func(a map[string]string) { a["name"] = "." }, message: "--name"},
		"a folder that leads out":  {slot: "files", change: func(a map[string]string) { a["directory"] += "/.." }, message: "--directory"},
		"no folder at all":         {slot: "files", change: func(a map[string]string) { a["directory"] = "/" }, message: "--directory"},
		"another mode":             {slot: "raw", change: func(a map[string]string) { a["volume-mode"] = "block" }, message: "--volume-mode"},
		"a method in process only": {slot: "raw", method: []string{"hdparm"}, message: "hdparm"},
		"an unknown method":        {slot: "raw", method: []string{"burn"}, message: "burn"},
	} {
		t.Run(name, func(t *testing.T) {
			args := s.args(t, test.slot)
			if test.change != nil {
				test.change(args)
			}
			result, err := clean(t, args, test.method...)
			if err == nil || result.Clean || result.Message == "" {
				t.Errorf("%+v, %v", result, err)
			}
			if test.want != "" && result.Reason != test.want || !strings.Contains(result.Message, test.message) {
				t.Errorf("%+v, want %s %s", result, test.want, test.message)
			}
			if left := s.content(t, test.slot); left == "" {
				t.Error("cleaned nevertheless")
			}
		})
	}
	t.Run("a ticket that another Job holds", func(t *testing.T) {
		args := s.args(t, "files")
		held, err := ticket.Hold(args["ticket"])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = held.Close() }()
		if result, err := clean(t, args); err == nil || result.Reason != disk.VolumeInUse {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// TestCleanGoesOn: a clean resumes at the step of an earlier attempt.
func TestCleanGoesOn(t *testing.T) {
	s := newSlots(t)
	args := s.args(t, "raw")
	const size, half = 6 << 20, 4 << 20
	if err := os.WriteFile(s.device, make([]byte, half), 0o600); err != nil {
		t.Fatal(err)
	}
	args["step"] = "dd-zero/1 1:4194304/6291456"
	result, err := clean(t, args, "dd-zero", "1")
	if err != nil || !result.Clean {
		t.Fatalf("%+v, %v", result, err)
	}
	text, err := os.ReadFile(s.device)
	if err != nil || len(text) != size || len(bytes.Trim(text, "\x00")) > 0 {
		t.Errorf("the device does not read as %d zeros: %d bytes, %v", size, len(text), err)
	}
}
