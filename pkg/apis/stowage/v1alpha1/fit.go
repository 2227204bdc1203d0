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

// Fit returns an entry that the schema accepts: long texts are cut and end in "…", invalid UTF-8
// becomes "\ufffd", and negative numbers become 0. Otherwise the API server would reject the
// whole page because of one entry.
func Fit(entry Entry) Entry {
	entry.Class = cut(entry.Class, maxNameLength)
	entry.Name = cut(entry.Name, maxFileName)
	entry.Path = cut(entry.Path, maxPath)
	entry.Reason = cut(entry.Reason, maxReason)
	entry.Message = cut(entry.Message, maxMessage)
	entry.Identity = cut(entry.Identity, maxIdentity)
	if cut(entry.Acknowledgement, maxAcknowledgement) != entry.Acknowledgement { // a part of it would name other data
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

// FitMessage cuts a text to the length of a message.
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

// CutBytes returns at most limit bytes of a text. A text that is cut ends in "…".
func CutBytes(text string, limit int) string {
	const more = "…"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(more)], "") + more
}

// cut returns at most limit characters of a text.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}
