// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// ofHardware returns the identity that a whole disk has from its maker, or, if it is composed
// of others, from its volume manager; empty when it has none. The order of the sources is part
// of the identity's meaning: another order would change the identity of disks with several
// names. A registered name precedes all others.
func (h Host) ofHardware(device sysfs.Device) (name, error) {
	names, err := namesOf(device)
	if err != nil {
		return name{}, err
	}
	for _, n := range names {
		if n.registered() {
			return h.onDisk(device, n.scheme, n.text)
		}
	}
	for _, n := range names {
		if n.distinctive() {
			return h.onDisk(device, "vendor", n.text)
		}
	}
	model, serial, err := serialOf(device)
	if err != nil {
		return name{}, err
	}
	if serial != "" {
		return h.onDisk(device, "serial", model, serial)
	}
	scheme, uuid, err := ofMapped(device)
	if err != nil || uuid == "" {
		return name{}, err
	}
	return h.onMachine(scheme, uuid)
}

// name is an identity without what comes after "@", and that.
type name struct{ text, at string }

func (n name) identity() disk.Identity { return disk.Identity(n.text + n.at) }

// onDisk names a disk by what its hardware reports. A registered name needs no machine,
// unless the data may be gone while the name stays.
func (h Host) onDisk(device sysfs.Device, scheme string, values ...string) (name, error) {
	ephemeral, err := h.ephemeral(device)
	if err != nil {
		return name{}, err
	}
	text := string(compose(scheme, values...))
	switch {
	case ephemeral:
		boot, err := sysfs.BootID()
		return name{text, "@" + h.Machine + "/" + boot}, err
	case scheme == "wwn" || scheme == "nvme":
		return name{text, ""}, nil
	default:
		return h.onMachine(scheme, values...)
	}
}

// onMachine returns a name that is unique on one machine only. If the machine has no name, it
// is valid for one boot only.
func (h Host) onMachine(scheme string, values ...string) (name, error) {
	text := string(compose(scheme, values...))
	if h.Machine != "" {
		return name{text, "@" + h.Machine}, nil
	}
	boot, err := sysfs.BootID()
	return name{text, "@/" + boot}, err
}

// kernelName is a name as sysfs writes it: "<kind>.<name>".
type kernelName struct{ scheme, text string }

// namesOf returns the names that the kernel reports for a disk: for NVMe a UUID, NGUID or
// EUI-64, else one that it composes of vendor, serial number, model and namespace; for SCSI,
// SATA, SAS and similar the logical unit's.
func namesOf(device sysfs.Device) ([]kernelName, error) {
	var names []kernelName
	for _, source := range []struct{ scheme, file string }{{"nvme", "wwid"}, {"wwn", "device/wwid"}} {
		text, err := device.Attribute(source.file)
		if err != nil {
			return nil, err
		}
		names = append(names, kernelName{source.scheme, tidy(text)})
	}
	page, err := device.Attribute("device/vpd_pg83")
	return append(names, kernelName{"wwn", designator([]byte(page))}), err
}

// registered reports whether a name is one that its registration authority assigns once.
func (n kernelName) registered() bool {
	kind, text, _ := strings.Cut(n.text, ".")
	return registered(kind, strings.ToLower(text))
}

// registered reports whether a name is complete, of a registered kind, and neither zeros nor
// another filler in the part that the maker chooses.
func registered(kind, text string) bool {
	if kind == "uuid" {
		text = strings.ReplaceAll(text, "-", "")
	}
	b, err := hex.DecodeString(text)
	if err != nil || !distinguishes(text) {
		return false
	}
	switch {
	case kind == "naa" && len(b) == 8 && b[0]>>4 == 2: // IEEE Extended: 12 bits of the maker, OUI, 24 bits of the maker
		return organization(b[2:5]) && distinguishes(hex.EncodeToString(b[5:]))
	case kind == "naa" && (len(b) == 8 && b[0]>>4 == 5 || len(b) == 16 && b[0]>>4 == 6): // IEEE Registered: OUI after four bits
		return organization([]byte{b[0]<<4 | b[1]>>4, b[1]<<4 | b[2]>>4, b[2]<<4 | b[3]>>4}) && distinguishes(text[7:])
	case kind == "eui" && (len(b) == 8 || len(b) == 12): // the longer with a directory of four bytes
		return organization(b[:3]) && distinguishes(text[6:])
	case kind == "eui" && len(b) == 16: // NGUID, whose OUI comes after eight bytes
		return distinguishes(text[:16]+text[22:]) && distinguishes(text[16:])
	case kind == "uuid" && len(b) == 16:
		return !fillers[text[:8]+"-"+text[8:12]+"-"+text[12:16]+"-"+text[16:20]+"-"+text[20:]]
	default:
		return false
	}
}

// organization reports whether three bytes are an identifier that IEEE assigns to makers.
// QEMU's virtual disks have one that is marked as local.
func organization(oui []byte) bool {
	const local = 0x02
	return oui[0]&local == 0 && (oui[0]|oui[1]|oui[2]) != 0
}

// distinctive reports whether an unregistered name distinguishes the disks of a machine. The
// kernel composes one for NVMe from a serial number that may be empty.
func (n kernelName) distinctive() bool {
	kind, text, ok := strings.Cut(n.text, ".")
	if !ok || !distinguishes(text) {
		return false
	}
	switch kind {
	case "nvme":
		fields := strings.Split(text, "-")
		if len(fields) != 4 {
			return false
		}
		serial, err := hex.DecodeString(fields[1])
		return err == nil && distinguishes(tidy(string(serial)))
	case "t10":
		return true
	case "naa":
		return strings.HasPrefix(text, "3")
	default:
		return false // an EUI, UUID or other NAA that is a filler
	}
}

// vitalSerial is the page of vital product data with the serial number.
const vitalSerial = "device/vpd_pg80"

// serialOf returns model and serial number of what has only these: virtio, MMC, old SCSI.
func serialOf(device sysfs.Device) (model, serial string, err error) {
	if strings.Contains(filepath.Base(string(device)), "boot") {
		return "", "", nil // mmcblk0boot0 is another disk than mmcblk0, with its serial number
	}
	for _, file := range []string{"serial", "device/serial", vitalSerial} {
		text, err := device.Attribute(file)
		if err != nil {
			return "", "", err
		}
		if file == vitalSerial {
			text = unitSerial([]byte(text))
		}
		if text = tidy(text); distinguishes(text) {
			serial = text
			break
		}
	}
	if serial == "" {
		return "", "", nil
	}
	model, err = modelOf(device)
	if err == nil && model == "" {
		model, err = device.Attribute("device/name") // MMC
	}
	return tidy(model), serial, err
}

// ofMapped is for device mapper and md, whose names are in their own metadata, which users of
// the device cannot write. They are content, which is copied with an image.
func ofMapped(device sysfs.Device) (scheme, uuid string, err error) {
	for _, manager := range []struct {
		scheme string
		unique func(id string) bool
	}{{"dm", lasting}, {"md", distinguishes}} {
		id, err := device.Attribute(manager.scheme + "/uuid")
		if err != nil {
			return "", "", err
		}
		if id = tidy(id); manager.unique(id) {
			return manager.scheme, id, nil
		}
	}
	return "", "", nil
}

// lasting reports whether a device mapper name is stored on disk: others are chosen freely and
// may be reused.
func lasting(id string) bool {
	if rest, ok := strings.CutPrefix(id, "part"); ok { // part1-mpath-...
		_, id, _ = strings.Cut(rest, "-")
	}
	return slices.ContainsFunc([]string{"LVM-", "mpath-", "CRYPT-LUKS"}, func(manager string) bool { return strings.HasPrefix(id, manager) })
}

// unitSerial returns the serial number of page 0x80; empty when there is none.
func unitSerial(page []byte) string {
	return string(pageBody(page, 0x80))
}

// designator returns the best name for the logical unit in page 0x83, in the format of sysfs
// ("naa.5000c500a1b2c3d4"); empty when there is none.
func designator(page []byte) string {
	body := pageBody(page, 0x83)
	best, rank := "", 0
	for len(body) >= 4 {
		head, n := body[:4], int(body[3])
		if len(body) < 4+n {
			break
		}
		name := body[4 : 4+n]
		body = body[4+n:]
		if head[1]&0x30 != 0 {
			continue // names the port or the target, which several units share
		}
		if text, r := designation(head[1]&0x0f, name); r > rank {
			best, rank = text, r
		}
	}
	return best
}

// designation writes down one name, and returns how much it is to be preferred: names that
// are registered before those that are not.
func designation(kind byte, name []byte) (string, int) {
	switch {
	case len(name) == 0:
		return "", 0
	case kind == 3 && len(name) >= 8:
		return ranked("naa", name, 3, 6)
	case kind == 2 && len(name) >= 8:
		return ranked("eui", name, 1, 5)
	case kind == 0xa && len(name) == 18: // a reserved byte or two come first
		return ranked("uuid", name[2:], 1, 4)
	case kind == 1:
		return "t10." + tidy(string(name)), 2
	default:
		return "", 0
	}
}

// ranked returns a name, and its rank if it is registered or else the other.
func ranked(kind string, name []byte, other, ofRegistered int) (string, int) {
	text := hex.EncodeToString(name)
	if registered(kind, text) {
		other = ofRegistered
	}
	return kind + "." + text, other
}

// pageBody returns what follows the head of a page of vital product data (SCSI Primary
// Commands): four bytes, of which the last two are the length of the rest. It is nil for
// another page, or a short one.
func pageBody(page []byte, code byte) []byte {
	const pageHead = 4
	if len(page) < pageHead || page[1] != code {
		return nil
	}
	n := int(binary.BigEndian.Uint16(page[2:4]))
	if len(page) < pageHead+n {
		return nil
	}
	return page[pageHead : pageHead+n]
}

// compose joins a scheme and its values, each escaped.
func compose(scheme string, values ...string) disk.Identity {
	var b strings.Builder
	b.WriteString(scheme)
	for _, v := range values {
		b.WriteByte(':')
		escape(&b, v)
	}
	return disk.Identity(b.String())
}

// escape writes a value with colons, percent and at signs, and non-printable bytes and
// non-ASCII as %XX, so that different values stay different.
func escape(b *strings.Builder, v string) {
	for i := range len(v) {
		if c := v[i]; c <= ' ' || c >= 0x7f || c == ':' || c == '%' || c == '@' {
			fmt.Fprintf(b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
}

// tidy removes the padding that hardware adds: leading and trailing blanks and NULs, and
// repeated blanks between words.
func tidy(v string) string {
	return strings.Join(strings.FieldsFunc(v, func(r rune) bool {
		return r == 0 || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	}), " ")
}

// distinguishes reports whether a number distinguishes a disk from others. Hardware without one
// reports zeros, another repeated character, or a dash.
func distinguishes(number string) bool {
	digits := strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(number)
	return digits != "" && strings.Trim(digits, digits[:1]) != ""
}
