// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// kernelLog reads what the kernel logs about devices. Errors of writing data are found nowhere
// else. The kernel limits the rate of its messages, so they are not counted, and names devices
// in them: a message is attributed to the device that had the name before and after it was logged.
type kernelLog struct {
	path string
	file *os.File // nil until it is opened
	// names are the devices by name at the last call, as "<number> <diskseq>".
	names map[string]string
}

// patterns are the messages that count, and the sign that they are. The first group is the name
// of the device.
var patterns = []struct {
	message *regexp.Regexp
	sign    disk.Sign
}{
	{regexp.MustCompile(`^EXT4-fs [a-z]+ \(device ([^)]+)\): ext4_end_bio:.* I/O error \d+ writing to inode`), lost},
	{regexp.MustCompile(`^EXT4-fs \(([^)]+)\): Delayed block allocation failed`), lost},
	{regexp.MustCompile(`^Buffer I/O error on dev ([^,]+), logical block \d+, lost (?:a?sync) page write`), lost},
	{regexp.MustCompile(`^XFS \(([^)]+)\): writeback error on inode`), lost},
	{regexp.MustCompile(`^(\S+): writeback error on inode`), lost},
	{regexp.MustCompile(` error, dev ([^,]+), sector \d+ op 0x\w+:\(WRITE\)`), lost},
	{regexp.MustCompile(` error, dev ([^,]+), sector \d+ op 0x\w+:\(READ\)`), unread},
}

var (
	lost   = disk.Sign{Reason: disk.WriteLost, Message: "the kernel could not write to the disk"}
	unread = disk.Sign{Reason: disk.DiskErrors, Message: "the kernel could not read from the disk", Source: disk.KernelLog}
)

// signs returns the worst sign of each disk in what was logged since the last call.
func (l *kernelLog) signs(targets []target) map[disk.Identity]disk.Sign {
	before := l.names
	l.names = map[string]string{}
	users := map[string][]disk.Identity{}
	for _, t := range targets {
		for _, d := range t.devices {
			diskseq := d.diskseq()
			l.names[d.name] = d.number + " " + diskseq
			users[d.name] = append(users[d.name], t.Identity)
		}
	}
	found := map[disk.Identity]disk.Sign{}
	for _, message := range l.read() {
		name, sign, ok := parse(message)
		if !ok || l.names[name] == "" || l.names[name] != before[name] {
			continue
		}
		for _, id := range users[name] {
			if found[id].Reason != disk.WriteLost {
				found[id] = sign
			}
		}
	}
	return found
}

// diskseq returns the number of the attachment of a device or of its disk; empty if unknown.
func (d *device) diskseq() string {
	whole, _, err := d.Disk()
	if err != nil {
		return ""
	}
	text, _ := whole.Attribute("diskseq")
	return strings.TrimSpace(text)
}

// parse returns the device and the sign of a message of the kernel.
func parse(message string) (device string, sign disk.Sign, ok bool) {
	for _, p := range patterns {
		if match := p.message.FindStringSubmatch(message); match != nil {
			return match[1], p.sign, true
		}
	}
	return "", disk.Sign{}, false
}

// read returns the kernel's messages since the last call, at most those that it keeps; nothing at
// the first call. Messages of programs are left out.
func (l *kernelLog) read() []string {
	if l.file == nil {
		file, err := os.OpenFile(l.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil
		}
		if _, err := file.Seek(0, io.SeekEnd); err != nil {
			_ = file.Close()
			return nil
		}
		l.file = file
	}
	conn, err := l.file.SyscallConn()
	if err != nil {
		return nil
	}
	var messages []string
	_ = conn.Read(func(fd uintptr) bool { messages = drain(int(fd)); return true })
	return messages
}

// drain reads records until there is none.
func drain(fd int) []string {
	var messages []string
	record := make([]byte, 8192) // the longest record
	for {
		n, err := unix.Read(fd, record)
		switch {
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR): // some were overwritten
			continue
		case err != nil || n == 0:
			return messages
		}
		if text, ok := ofKernel(string(record[:n])); ok {
			messages = append(messages, text)
		}
	}
}

// ofKernel returns the text of a record of /dev/kmsg: "<priority>,<sequence>,<time>,<flags>;<text>",
// then a line for each property. false if a program wrote it.
func ofKernel(record string) (string, bool) {
	prefix, text, _ := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n")
	level, _, _ := strings.Cut(prefix, ",")
	const facility = 3 // the bits of the level below it
	n, err := strconv.ParseUint(level, 10, 32)
	return text, err == nil && n>>facility == 0
}
