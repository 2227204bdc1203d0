// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"
	"unicode/utf8"
)

// The schema's limits, in characters.
const (
	maxFileName = 255
	maxPath     = 4096
	maxIdentity = 8192
	maxReason   = 64
	maxMessage  = 1024
	maxUID      = 128

	maxAcknowledgement = 8448
)

// Fit makes an entry one that the schema accepts: texts that are too long are cut and
// end in "…", bytes that are no text in UTF-8 become "\ufffd", and numbers that are
// negative become 0. One entry that the API server refuses would otherwise keep the
// whole page from being written.
func Fit(entry Entry) Entry {
	entry.Class = cut(entry.Class, maxNameLength)
	entry.Name = cut(entry.Name, maxFileName)
	entry.Path = cut(entry.Path, maxPath)
	entry.Reason = cut(entry.Reason, maxReason)
	entry.Message = cut(entry.Message, maxMessage)
	entry.Identity = cut(entry.Identity, maxIdentity)
	if cut(entry.Acknowledgement, maxAcknowledgement) != entry.Acknowledgement { // half of one names other data
		entry.Acknowledgement = ""
	}
	entry.Volume = cut(entry.Volume, maxNameLength)
	entry.Filesystem = cut(entry.Filesystem, maxReason)
	entry.Bytes, entry.Generation = max(entry.Bytes, 0), max(entry.Generation, 0)
	if entry.Cleaning != nil {
		cleaning := *entry.Cleaning
		cleaning.Method = cut(cleaning.Method, maxNameLength)
		cleaning.LastError = cut(cleaning.LastError, maxMessage)
		cleaning.DoneBytes, cleaning.TotalBytes = max(cleaning.DoneBytes, 0), max(cleaning.TotalBytes, 0)
		cleaning.Attempts = max(cleaning.Attempts, 0)
		if cleaning.Request != nil {
			request := *cleaning.Request
			request.Step = FitStep(request.Step)
			cleaning.Request = &request
		}
		entry.Cleaning = &cleaning
	}
	return entry
}

// FitMessage makes a text one that a condition, or any other message, may have.
func FitMessage(text string) string { return cut(text, maxMessage) }

func fitClass(class ClassStatus) ClassStatus {
	class.Name = cut(class.Name, maxNameLength)
	class.HostDir = cut(class.HostDir, maxPath)
	class.Reason = cut(class.Reason, maxReason)
	class.Message = cut(class.Message, maxMessage)
	return class
}

func fitTombstone(t Tombstone) Tombstone {
	t.Identity = cut(t.Identity, maxIdentity)
	t.Class = cut(t.Class, maxNameLength)
	t.Name = cut(t.Name, maxFileName)
	t.Volume = cut(t.Volume, maxNameLength)
	t.VolumeUID = cut(t.VolumeUID, maxUID)
	t.Generation = max(t.Generation, 0)
	return t
}

// cut makes text of at most so many characters.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}
