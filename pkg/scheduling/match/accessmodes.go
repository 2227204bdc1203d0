// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math/bits"

	v1 "k8s.io/api/core/v1"
)

// AccessModes is a set of access modes, one bit each.
type AccessModes uint8

const (
	readWriteOnce AccessModes = 1 << iota
	readOnlyMany
	readWriteMany
	readWriteOncePod
	// unknownMode represents every mode that this package does not know. The API server
	// accepts none today. A claim that requests one cannot be served, because two unknown
	// modes cannot be compared.
	unknownMode
)

// AccessModesOf returns the modes as a set; order and repetition do not matter.
func AccessModesOf(modes []v1.PersistentVolumeAccessMode) AccessModes {
	var set AccessModes
	for _, mode := range modes {
		switch mode {
		case v1.ReadWriteOnce:
			set |= readWriteOnce
		case v1.ReadOnlyMany:
			set |= readOnlyMany
		case v1.ReadWriteMany:
			set |= readWriteMany
		case v1.ReadWriteOncePod:
			set |= readWriteOncePod
		default:
			set |= unknownMode
		}
	}
	return set
}

// Contains reports whether every requested mode is in the set. No set contains an unknown
// mode.
func (m AccessModes) Contains(requested AccessModes) bool {
	return requested&unknownMode == 0 && requested&^m == 0
}

// Surplus counts the modes of the set that were not requested.
func (m AccessModes) Surplus(requested AccessModes) int {
	return bits.OnesCount8(uint8(m &^ requested))
}
