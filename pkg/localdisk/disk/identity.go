// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

import "strings"

// Identity distinguishes one disk from others: "scheme:value", and for most schemes
// "@machine" after it. It is never derived from what a user of the volume can write.
// Empty means unknown.
//
//	wwn:<name>                       a registered name: NAA 2, 5 or 6, EUI-64, UUID
//	nvme:<name>                      a registered name: EUI-64, NGUID or UUID
//	vendor:<name>@<at>               a name that is a serial number in another form: T10, NAA 3,
//	                                 nvme.<vid>-<serial>-<model>-<ns>
//	serial:<model>:<serial>@<at>     a device with a serial number
//	dm:<UUID>@<machine>              a device of LVM, LUKS or multipath
//	md:<UUID>@<machine>              an array
//	part:<disk>:<PARTUUID>:<start>   a partition; <disk> is one of the above, and what it has
//	                                 after @ is at the end
//	fs:<UUID>:<root>@<machine>       a mounted file system, and the folder of it that is mounted
//	dir:<UUID>:<inode>:<birth>@<machine>  a directory of a file system
//	mem:<boot>:<UUID>:<root>         a file system in memory
//	weak:<boot>:<diskseq>            a device without any of these, such as a loop device; valid
//	                                 until it is detached or the node restarts
//	weakpart:<boot>:<diskseq>:<start>       a partition of one
//	weakfs:<boot>:<device>:<root>    a file system without a UUID
//	weakdir:<boot>:<device>:<inode>  a directory of one
//
// <at> is <machine>, or <machine>/<boot> for a disk whose data a stop of the machine may
// discard. An identity without it, and not valid for one boot, belongs to one disk anywhere.
//
// Sizes are not part of it: a disk that has grown is the same disk.
//
// Values contain no spaces; "%", ":" and "@" within them are escaped.
type Identity string

// Scheme is what comes before the first colon.
func (i Identity) Scheme() string {
	scheme, _, _ := strings.Cut(string(i), ":")
	return scheme
}

// Weak reports whether the identity is valid for this boot of the node only and another
// identity may be of the same disk later. A file system in memory does not outlive the
// boot, so its identity is not weak.
func (i Identity) Weak() bool { return i.Unnamed() || i.parts().boot != "" }

// Unnamed reports whether the disk has no name, so that after a restart any disk of the node
// may be the same one.
func (i Identity) Unnamed() bool { return strings.HasPrefix(string(i), "weak") }

// Name is the identity without the machine and the boot that it is limited to.
func (i Identity) Name() string { return i.parts().name }

// Machine is the machine that the identity is limited to; empty if it is limited to none.
func (i Identity) Machine() string { return i.parts().machine }

// OnMachine returns the identity that the same disk has on another machine: unchanged unless it is
// limited to the machine, and to nothing else.
func (i Identity) OnMachine(machine string) Identity {
	p := i.parts()
	if p.machine == "" || p.boot != "" || machine == "" {
		return i
	}
	return Identity(p.name + "@" + machine)
}

// Moved reports whether two identities differ in the machine only.
func (i Identity) Moved(other Identity) bool {
	machine := other.Machine()
	return i != other && machine != "" && i.Machine() != "" && i.OnMachine(machine) == other
}

// PartOf reports whether the identity is that of a partition of whole, or of a folder of its
// file system.
func (i Identity) PartOf(whole Identity) bool {
	part, all := i.parts(), whole.parts()
	if part.machine != all.machine || part.boot != all.boot {
		return false
	}
	switch whole.Scheme() {
	case "weak":
		return strings.HasPrefix(part.name, "weakpart"+strings.TrimPrefix(all.name, "weak")+":")
	case "fs", "weakfs", "mem":
		return strings.HasPrefix(part.name, strings.TrimSuffix(all.name, "/")+"/")
	default:
		return strings.HasPrefix(part.name, "part:"+all.name+":")
	}
}

// parts is an identity taken apart.
type parts struct {
	// name is what comes before "@", machine and boot what comes after.
	name, machine, boot string
}

func (i Identity) parts() parts {
	name, at, _ := strings.Cut(string(i), "@")
	machine, boot, _ := strings.Cut(at, "/")
	return parts{name, machine, boot}
}

// source is the scheme of a disk, or of the disk of a partition.
func (p parts) source() string {
	scheme, _, _ := strings.Cut(strings.TrimPrefix(p.name, "part:"), ":")
	return scheme
}

func (p parts) partition() bool { return strings.HasPrefix(p.name, "part:") }

func registered(source string) bool { return source == "wwn" || source == "nvme" }

// boot is the boot that the identity of an unnamed disk belongs to.
func (i Identity) boot() string {
	_, rest, _ := strings.Cut(string(i), ":")
	boot, _, _ := strings.Cut(rest, ":")
	return boot
}

// Kind returns what the identity is of. The same disk may have another scheme of that kind later:
// a driver update that adds serial numbers makes a weak device a strong one.
func (i Identity) Kind() Kind {
	switch i.Scheme() {
	case "fs", "weakfs", "mem":
		return Mount
	case "dir", "weakdir":
		return Directory
	default:
		return Device
	}
}

// Match is the outcome of comparing two identities.
type Match string

// The outcomes.
const (
	// Same disk.
	Same Match = "Same"
	// Different disks.
	Different Match = "Different"
	// Unproven: it may be the same disk, and nothing proves that it is. Nothing may
	// be destroyed, and nothing published, on the strength of it.
	Unproven Match = "Unproven"
)

// Compare reports whether two identities are of one disk. One name on two machines proves
// nothing: serial numbers repeat, and so do the UUIDs of an image; but after the mainboard
// was exchanged, it is the same disk. Nor does one name in two boots, where a stop of the
// machine may have discarded the data.
func (i Identity) Compare(other Identity) Match {
	a, b := i.parts(), other.parts()
	switch {
	case i == "" || other == "":
		return Unproven
	case i == other:
		return Same
	case i.Kind() != other.Kind():
		return Different
	case i.Scheme() == "mem" || other.Scheme() == "mem":
		return Different // memory does not outlive its mount
	case a.name == b.name:
		return Unproven
	case i.Unnamed() && other.Unnamed() && i.boot() == other.boot():
		return Different
	case i.Unnamed() || other.Unnamed():
		return Unproven
	case a.partition() == b.partition() && fromHardware(a.source()) && fromHardware(b.source()) && registered(a.source()) != registered(b.source()):
		return Unproven // a disk whose driver has begun to report its registered name
	default:
		return Different
	}
}

// fromHardware reports whether the names of a source are those of the device itself.
func fromHardware(source string) bool {
	return registered(source) || source == "vendor" || source == "serial"
}

// Matches compares the disk at the volume's path with the one that the volume was published
// with, or that an administrator accepted.
func (v *Volume) Matches(found Identity) Match {
	if found != "" && v.Accepted == found {
		return Same
	}
	return v.Identity.Compare(found)
}
