// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

import "strings"

// Identity tells one disk from another: "scheme:value". It is never made from
// what somebody who uses the volume can write; a file system that is made on a
// device changes nothing. Empty is not known.
//
//	wwn:<wwn>                        a device with a World Wide Name
//	nvme:<eui or nguid>              an NVMe namespace
//	serial:<model>:<serial>          a device with a serial number
//	part:<disk>:<PARTUUID>:<start>   a partition; <disk> is one of the above
//	fs:<UUID>:<root>                 a mounted file system, and which folder of it
//	dir:<UUID>:<inode>:<birth>       a directory of a file system
//	mem:<boot>:<UUID>:<root>         a file system in memory: another one whenever it is made
//	weak:<boot>:<diskseq>            a device that has none of these, such as a loop
//	                                 device; good until it is detached or the node restarts
//	weakpart:<boot>:<diskseq>:<start>       a partition of one
//	weakfs:<boot>:<device>:<root>    a file system that tells no UUID
//	weakdir:<boot>:<device>:<inode>  a directory of one
//
// Sizes are no part of it: a disk that has grown is still the same.
//
// Values hold no spaces; colons within them are escaped by those who make them.
type Identity string

// Scheme is what comes before the first colon.
func (i Identity) Scheme() string {
	scheme, _, _ := strings.Cut(string(i), ":")
	return scheme
}

// Weak says whether the identity holds for this boot of the node only, so that
// another value later need not be another disk.
func (i Identity) Weak() bool { return strings.HasPrefix(string(i), "weak") }

// boot is the boot that a weak identity, or one of memory, belongs to.
func (i Identity) boot() string {
	_, rest, _ := strings.Cut(string(i), ":")
	boot, _, _ := strings.Cut(rest, ":")
	return boot
}

// kind groups the schemes that may be given to the same disk at different times:
// a driver that learns to tell serial numbers makes a weak device a strong one.
func (i Identity) kind() Kind {
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

// Compare says whether two identities are of one disk.
func (i Identity) Compare(other Identity) Match {
	switch {
	case i == "" || other == "":
		return Unproven
	case i == other:
		return Same
	case i.kind() != other.kind():
		return Different
	case i.Scheme() == "mem" || other.Scheme() == "mem":
		return Different // memory does not outlive its mount
	case !i.Weak() && !other.Weak():
		return Different
	case i.Weak() && other.Weak() && i.boot() == other.boot():
		return Different
	default:
		return Unproven
	}
}
