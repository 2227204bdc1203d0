// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/ioctl"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// smartPeriod is the time between two reads of a drive's own log.
const smartPeriod = 10 * time.Minute

// smartLog is the SMART / Health Information log page (02h) of an NVMe controller, in the NVM
// Express Base Specification.
type smartLog [512]byte

// The bits of the critical warning. That of the temperature, which passes, is left out.
const (
	spareLow      = 1 << 0
	unreliable    = 1 << 2
	readOnlyMedia = 1 << 3
	backupFailed  = 1 << 4
)

// smart returns what an NVMe drive reports about itself; nothing for other devices.
func (d *device) smart() []disk.Sign {
	page, ok := d.readSMART()
	if !ok {
		return nil
	}
	name, _ := d.Attribute("wwid")
	return page.signs(strings.TrimSpace(name))
}

// signs returns what the drive of a name reports about itself.
func (l *smartLog) signs(name string) []disk.Sign {
	warning, spare, threshold, used := l[0], l[3], l[4], l[5]
	signs := []disk.Sign{{Reason: disk.DiskErrors, Message: "the drive counted media errors", Counter: "nvme " + name, Value: l.mediaErrors(), Lifetime: true}}
	add := func(found bool, reason disk.Reason, format string, args ...any) {
		if found {
			signs = append(signs, disk.Sign{Reason: reason, Message: fmt.Sprintf(format, args...)})
		}
	}
	add(warning&readOnlyMedia != 0, disk.DriveFailing, "the drive reports that it accepts no writes any more")
	add(warning&unreliable != 0, disk.DriveFailing, "the drive reports that it is not reliable")
	add(warning&spareLow != 0, disk.DriveWarning, "the drive has %d%% of its spare blocks left, less than its threshold of %d%%", spare, threshold)
	add(warning&backupFailed != 0, disk.DriveWarning, "the drive reports that its memory is not protected against a power cut")
	add(used >= 100, disk.DriveWarning, "the drive has reached %d%% of its rated endurance", used)
	return signs
}

// mediaErrors returns a counter of 128 bits, or the largest number.
func (l *smartLog) mediaErrors() uint64 {
	const at = 160
	if binary.LittleEndian.Uint64(l[at+8:]) != 0 {
		return math.MaxUint64
	}
	return binary.LittleEndian.Uint64(l[at:])
}

// adminCommand is struct nvme_admin_cmd of the kernel.
type adminCommand struct {
	opcode, flags     uint8
	reserved          uint16
	namespace         uint32
	cdw2, cdw3        uint32
	metadata, address uint64
	metadataLength    uint32
	length            uint32
	cdw10, cdw11      uint32
	cdw12, cdw13      uint32
	cdw14, cdw15      uint32
	timeout           uint32 // milliseconds
	result            uint32
}

const (
	getLogPage    = 0x02
	allNamespaces = math.MaxUint32
	// submitAdmin is NVME_IOCTL_ADMIN_CMD.
	submitAdmin = ioctl.Read | ioctl.Write | uint(unsafe.Sizeof(adminCommand{}))<<16 | 'N'<<8 | 0x41
)

// readSMART reads the log of an NVMe drive; false if the device is none, or does not return it.
func (d *device) readSMART() (page smartLog, ok bool) {
	if !strings.HasPrefix(d.name, "nvme") || d.part != "" {
		return page, false
	}
	file, err := os.OpenFile(d.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return page, false
	}
	defer file.Close()
	const dwords = uint32(len(page)/4 - 1)
	var pinner runtime.Pinner
	pinner.Pin(&page)
	defer pinner.Unpin()
	command := adminCommand{
		opcode: getLogPage, namespace: allNamespaces, address: uint64(uintptr(unsafe.Pointer(&page))), length: uint32(len(page)),
		cdw10: dwords<<16 | 0x02, timeout: 10_000,
	}
	err = ioctl.Call(int(file.Fd()), submitAdmin, unsafe.Pointer(&command))
	return page, err == nil
}
