// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanjob

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Result is what a Job's container writes to ResultFile, from its start on, so that it exists
// however the container ends.
type Result struct {
	// Clean reports whether the disk is clean. Otherwise Reason and Message are why not; they
	// are empty while the Job runs.
	Clean   bool        `json:"clean,omitempty"`
	Reason  disk.Reason `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	// Step is where another attempt may resume.
	Step string `json:"step,omitempty"`
}

// maxResult is how much kubelet reads, in bytes, with room for what JSON escapes.
const maxResult, maxResultMessage = 4096, 1024

// Encode is the text of a result, cut to what kubelet reads.
func (r Result) Encode() []byte {
	r.Message = strings.ToValidUTF8(r.Message, "?")
	if len(r.Message) > maxResultMessage {
		r.Message = strings.ToValidUTF8(r.Message[:maxResultMessage], "") + "…"
	}
	for _, drop := range []func(){func() {}, func() { r.Step = "" }, func() { r.Message = "" }} {
		drop()
		if text, err := json.Marshal(r); err == nil && len(text) <= maxResult {
			return text
		}
	}
	return []byte("{}")
}

// Decode reads a result. What is none, because the container was killed while it wrote
// or never began, is the zero value; then the message is the text.
func Decode(text string) Result {
	var r Result
	if err := json.Unmarshal([]byte(text), &r); err != nil || !utf8.ValidString(r.Step) {
		return Result{Message: strings.TrimSpace(text)}
	}
	return r
}
