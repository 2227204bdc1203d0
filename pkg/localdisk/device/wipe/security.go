// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"bufio"
	"bytes"
	"strings"
)

// security is a drive's ATA security state, as hdparm -I prints it.
type security struct {
	supported, enabled, locked, frozen, expired bool
	// enhanced reports whether the drive can erase with its own pattern, including reallocated
	// sectors.
	enhanced bool
}

// parseSecurity reads the section "Security" of what hdparm -I prints. A drive
// without one supports nothing.
func parseSecurity(out []byte) security {
	var s security
	within := false
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, " ") {
			within = strings.HasPrefix(line, "Security:")
			continue
		}
		if !within {
			continue
		}
		words := strings.Fields(line)
		yes := true
		if len(words) > 0 && words[0] == "not" {
			yes, words = false, words[1:]
		}
		switch strings.Join(words, " ") {
		case "supported":
			s.supported = yes
		case "enabled":
			s.enabled = yes
		case "locked":
			s.locked = yes
		case "frozen":
			s.frozen = yes
		case "expired: security count":
			s.expired = yes
		case "supported: enhanced erase":
			s.enhanced = yes
		}
	}
	return s
}
