// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanjob

import (
	"crypto/sha256"
	"encoding/hex"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	// TicketFolder is where the provisioner leaves the tickets that allow Jobs to start. It is
	// in /dev, which is in memory: after a restart of the node no Job that was requested before
	// starts.
	TicketFolder = "/dev/stowage"
	// ResultFile is where the Job's container writes its result, for kubelet to read.
	ResultFile = "/result"
)

// Name is the name of an attempt's Job. It fits into a label.
func Name(volumeUID, attempt string) string { return "clean-" + volumeUID + "-" + attempt }

// TicketPrefix is what the names of all tickets of a disk begin with.
func TicketPrefix(identity disk.Identity) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:16]) + "-"
}

// Ticket is the name of the ticket in TicketFolder that an attempt's Job has to hold.
func Ticket(identity disk.Identity, attempt string) string { return TicketPrefix(identity) + attempt }
