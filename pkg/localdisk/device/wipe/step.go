// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"fmt"
	"strings"
)

// chunk is how much is written at a time, and what steps count in, in bytes.
const chunk = 4 * mib

// point is the progress of a method that writes the device from end to end: everything before
// the offset is done in this pass. Passes count from 1.
type point struct {
	pass   int
	offset int64
}

// step writes a point down for Progress.Step. The method and the size are in it:
// how far another method came, or the same on another size, means nothing.
func (p point) step(m Method, size int64) string {
	return fmt.Sprintf("%s %d:%d/%d", m.key(), p.pass, p.offset, size)
}

func (m Method) key() string {
	if m.Passes > 0 {
		return fmt.Sprintf("%s/%d", m.Name, m.Passes)
	}
	return m.Name
}

// resume parses a step. One of another method, or an invalid one, starts from the beginning.
func resume(step string, m Method, size int64) point {
	start := point{pass: 1}
	var p point
	rest, ok := strings.CutPrefix(step, m.key()+" ")
	if !ok {
		return start
	}
	var of int64
	if n, err := fmt.Sscanf(rest, "%d:%d/%d", &p.pass, &p.offset, &of); err != nil || n != 3 {
		return start
	}
	if p.step(m, size) != step || p.pass < 1 || p.pass > m.sweeps() || p.offset < 0 || p.offset > size || p.offset%chunk != 0 && p.offset != size {
		return start
	}
	return p
}

// sweeps is how often a method writes the device.
func (m Method) sweeps() int {
	switch m.Name {
	case Shred:
		return m.Passes + 1 // the zeros at last
	case DDZero:
		return m.Passes
	default:
		return 1
	}
}

// The steps of an ATA secure erase. The password is written down before the drive
// is given it: a drive that loses power in between is locked, and only the password
// opens it.
const (
	securityStep = HDParm + " password "
	erasedStep   = HDParm + " erased"
)

// finishedStep is the last of every method. It resumes nowhere: the same disk's next
// clean, should it be handed this one's step, starts from the beginning.
const finishedStep = "finished"

// password reads the password from a step; empty if it has none.
func password(step string) string {
	p, ok := strings.CutPrefix(step, securityStep)
	if !ok || len(p) != 2*passwordBytes || strings.Trim(p, "0123456789abcdef") != "" {
		return ""
	}
	return p
}

// passwordBytes random bytes make, in hex, the 32 characters that ATA allows.
const passwordBytes = 16
