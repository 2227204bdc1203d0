// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localpv

// Units of capacities, in bytes.
const (
	mebibyte = int64(1) << 20
	gibibyte = int64(1) << 30
)

// Capacity is the capacity, in bytes, of a volume on a disk of so many bytes: whole
// GiB from 10 GiB on, whole MiB from 10 MiB on, exact below. Disks that differ by a few
// sectors offer the same.
func Capacity(bytes int64) int64 {
	switch {
	case bytes >= 10*gibibyte:
		return bytes - bytes%gibibyte
	case bytes >= 10*mebibyte:
		return bytes - bytes%mebibyte
	default:
		return bytes
	}
}
