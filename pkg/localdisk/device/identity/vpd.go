// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"encoding/binary"
	"encoding/hex"
)

// A page of vital product data (SCSI Primary Commands) has a head of four bytes, of
// which the last two are the length of what follows.
const pageHead = 4

// unitSerial returns the serial number of page 0x80; empty when there is none.
func unitSerial(page []byte) string {
	body, ok := pageBody(page, 0x80)
	if !ok {
		return ""
	}
	return string(body)
}

// designator returns the best name for the logical unit in page 0x83, in the format of sysfs
// ("naa.5000c500a1b2c3d4"); empty when there is none.
func designator(page []byte) string {
	body, ok := pageBody(page, 0x83)
	if !ok {
		return ""
	}
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
		text, rank := hex.EncodeToString(name), 3
		if registered("naa", text) {
			rank = 6
		}
		return "naa." + text, rank
	case kind == 2 && len(name) >= 8:
		text, rank := hex.EncodeToString(name), 1
		if registered("eui", text) {
			rank = 5
		}
		return "eui." + text, rank
	case kind == 0xa && len(name) == 18: // a reserved byte or two come first
		text, rank := hex.EncodeToString(name[2:]), 1
		if registered("uuid", text) {
			rank = 4
		}
		return "uuid." + text, rank
	case kind == 1:
		return "t10." + tidy(string(name)), 2
	default:
		return "", 0
	}
}

func pageBody(page []byte, code byte) ([]byte, bool) {
	if len(page) < pageHead || page[1] != code {
		return nil, false
	}
	n := int(binary.BigEndian.Uint16(page[2:4]))
	if len(page) < pageHead+n {
		return nil, false
	}
	return page[pageHead : pageHead+n], true
}
