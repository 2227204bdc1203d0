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
	// unknownMode stands for every mode that this package does not know. The
	// API server admits none today; a claim that asks for one cannot be
	// served, because nothing tells whether two unknown modes are the same.
	unknownMode
)

// AccessModesOf returns the modes as a set. Order and repetition do not count.
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

// Contains reports whether every asked mode is in the set. An unknown mode is
// contained in nothing.
func (m AccessModes) Contains(asked AccessModes) bool {
	return asked&unknownMode == 0 && asked&^m == 0
}

// Surplus counts the modes of the set that were not asked for.
func (m AccessModes) Surplus(asked AccessModes) int {
	return bits.OnesCount8(uint8(m &^ asked))
}
