// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report encodes what the containers of a PaV helper pod leave in /pav, for the
// termination message of the pod's reporter. Kubelet cuts termination messages, so a report has
// its length and checksum: Decode refuses whatever Encode did not return. The package imports
// nothing of Kubernetes, which keeps the reporter's binary small.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxBytes is how much of the file of a termination message kubelet reads, from its end
	// (MaxContainerTerminationMessageLength in k8s.io/kubernetes/pkg/kubelet/container).
	MaxBytes = 4 << 10
	// podBytes is what kubelet keeps of all messages of a pod, the same of each container, from
	// its beginning (MaxPodTerminationMessageLogLength there).
	podBytes = 12 << 10
	// MinBytes is the smallest limit that Encode accepts: a report without texts fits.
	MinBytes = 512
	// MaxContainers is how many containers a pod may have for Limit to return MinBytes at least.
	MaxContainers = podBytes / MinBytes
)

// Limit returns how many bytes of a container's message the status of a pod keeps. containers are
// all containers of the pod, init containers included; at least 1.
func Limit(containers int) int { return min(MaxBytes, podBytes/containers) }

// Kind is the type of /pav/volume.
type Kind string

// The kinds of volumes. The zero value means that there is none.
const (
	Directory   Kind = "Directory"
	BlockDevice Kind = "BlockDevice"
)

// Volume describes /pav/volume, resolved inside of /pav. The zero value means that there is none.
type Volume struct {
	Kind Kind `json:"kind,omitempty"`
	// Bytes is the size of a block device, otherwise 0.
	Bytes int64 `json:"bytes,omitempty"`
	// FileSystem is the device number of the file system that has the directory or the device
	// node, as MAJOR:MINOR. With Inode it identifies what was there.
	FileSystem string `json:"fileSystem,omitempty"`
	Inode      uint64 `json:"inode,omitempty"`
	// Device is the number of a block device, as MAJOR:MINOR, otherwise empty.
	Device string `json:"device,omitempty"`
}

// Fits returns why a volume is not of a kind and size, as an error that names /pav/volume; nil if it
// is. bytes are the least size of a block device.
func (v Volume) Fits(kind Kind, bytes int64) error {
	switch {
	case v.Kind == "":
		return errors.New("/pav/volume does not exist")
	case v.Kind != kind:
		return fmt.Errorf("/pav/volume: is a %s, must be a %s", v.Kind, kind)
	case kind == BlockDevice && v.Bytes < bytes:
		return fmt.Errorf("/pav/volume: has %d bytes, must have at least %d", v.Bytes, bytes)
	}
	return nil
}

// Report is what a helper pod left in /pav.
type Report struct {
	// Handle and Capacity are the texts of /pav/handle and /pav/capacity, without newlines at
	// the end. They are not validated. nil: there is no such file, or Problems names it.
	Handle   *string `json:"handle,omitempty"`
	Capacity *string `json:"capacity,omitempty"`
	// Error is the text of /pav/error, without newlines at the end; empty without that file.
	// A pod that succeeds may have written it too. Encode shortens it.
	Error string `json:"error,omitempty"`
	// Reschedule means that /pav/reschedule exists.
	Reschedule bool   `json:"reschedule,omitempty"`
	Volume     Volume `json:"volume,omitzero"`
	// Problems are the reasons why /pav/handle, /pav/capacity or /pav/volume exist but are not
	// reported. Each begins with the path.
	Problems []string `json:"problems,omitempty"`
}

// Why Decode refuses a message.
var (
	ErrMissing = errors.New("the reporter left no report")
	ErrCut     = errors.New("the report is cut")
	ErrDamaged = errors.New("the report is damaged")
)

const (
	magic = "stowage-pav-report/1 "
	// header is followed by the body, which is JSON.
	header      = magic + "%04d %08x "
	headerBytes = len(magic) + 4 + 1 + 8 + 1

	// shortened is the end of a text that was longer.
	shortened = "…"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the termination message with r, valid UTF-8 of at most limit bytes. Bytes of r
// that are not UTF-8 are replaced. If r is too large, Error is shortened to what fits; if that is
// not enough, problems take the place of Handle and then of Capacity, and finally one problem that
// of all. A limit outside of MinBytes to MaxBytes is an error.
func Encode(r Report, limit int) (string, error) {
	if limit < MinBytes || limit > MaxBytes {
		return "", fmt.Errorf("limit of a report: %d bytes, must be from %d to %d", limit, MinBytes, MaxBytes)
	}
	limit -= headerBytes
	r.Error = strings.ToValidUTF8(r.Error, "\uFFFD")
	r.Problems = slices.Clone(r.Problems)
	text := r.Error
	for _, shrink := range []func(){
		func() {},
		func() { r.Error = "" },
		func() { r.leaveOut("/pav/handle", &r.Handle) },
		func() { r.leaveOut("/pav/capacity", &r.Capacity) },
		func() { r.Problems = []string{"/pav: more problems than a report has space for"} },
	} {
		shrink()
		body, err := r.body()
		if err != nil {
			return "", err
		}
		if len(body) > limit {
			continue
		}
		if r.Error != text {
			if body, err = r.withError(text, limit); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf(header, len(body), crc32.Checksum(body, castagnoli)) + string(body), nil
	}
	return "", fmt.Errorf("a report of %+v needs more than %d bytes", r.Volume, limit)
}

// leaveOut replaces a file's text, if there is one, by the problem that it does not fit.
func (r *Report) leaveOut(path string, text **string) {
	if *text != nil {
		r.Problems = append(r.Problems, fmt.Sprintf("%s: has %d bytes, which do not fit into a report", path, len(**text)))
		*text = nil
	}
}

// withError returns the longest body of at most limit bytes whose error is text, or a beginning of
// it with the mark of shortened texts. Without space for the mark there is no error.
func (r *Report) withError(text string, limit int) ([]byte, error) {
	none, err := r.body()
	if err != nil {
		return nil, err
	}
	r.Error = text
	best, err := r.body()
	if err != nil || len(best) <= limit {
		return best, err
	}
	best = none
	var ends []int // of the runes of text that may fit: no escape is shorter than what it stands for
	for end := range text {
		if end > limit {
			break
		}
		ends = append(ends, end)
	}
	low, high := 0, len(ends)
	for low < high {
		middle := int(uint(low+high) >> 1)
		r.Error = text[:ends[middle]] + shortened
		body, err := r.body()
		if err != nil {
			return nil, err
		}
		if len(body) <= limit {
			best, low = body, middle+1
		} else {
			high = middle
		}
	}
	return best, nil
}

// body is r as JSON. Characters that only HTML needs escaped are not.
func (r *Report) body() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Decode returns the report of a termination message. An error wraps ErrMissing, ErrCut or
// ErrDamaged: the report is then unknown, and nothing may be concluded from its absence.
func Decode(message string) (Report, error) {
	switch {
	case message == "":
		return Report{}, ErrMissing
	case len(message) < headerBytes && (strings.HasPrefix(magic, message) || strings.HasPrefix(message, magic)):
		return Report{}, fmt.Errorf("%w: %d bytes are left", ErrCut, len(message))
	case !strings.HasPrefix(message, magic):
		return Report{}, fmt.Errorf("%w: it does not begin with %q", ErrDamaged, strings.TrimSpace(magic))
	}
	head, body := message[:headerBytes], message[headerBytes:]
	length, err := strconv.Atoi(head[len(magic) : len(magic)+4])
	switch {
	case err != nil || length < 0:
		return Report{}, fmt.Errorf("%w: its length is not a number", ErrDamaged)
	case len(body) < length:
		return Report{}, fmt.Errorf("%w: %d of %d bytes are left", ErrCut, len(body), length)
	case len(body) > length:
		return Report{}, fmt.Errorf("%w: it has %d bytes instead of %d", ErrDamaged, len(body), length)
	case head != fmt.Sprintf(header, length, crc32.Checksum([]byte(body), castagnoli)) || !utf8.ValidString(body):
		return Report{}, fmt.Errorf("%w: its checksum is wrong", ErrDamaged)
	}
	var r Report
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return r, nil
}
