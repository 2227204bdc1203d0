// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	// version is what this release writes, and the only version that it reads: a record
	// of version 1 does not name its cluster.
	version = 2
	// sizeLimit is the most bytes that a file may have.
	sizeLimit = 1 << 20
)

// envelope is the content of a file.
type envelope struct {
	Version int `json:"version"`
	// SHA256 is that of the bytes of Record as they are in the file.
	SHA256 string          `json:"sha256"`
	Record json.RawMessage `json:"record"`
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}

// encode returns the content of a record's file, and the record as it will be read from there.
// A record that would change by that is an error.
func encode(record disk.Record, now time.Time) ([]byte, disk.Record, error) {
	if record.Identity == "" {
		return nil, disk.Record{}, errors.New("the record names no disk: its identity is empty")
	}
	record.Updated = now.UTC().Round(0)
	text, err := json.Marshal(record)
	if err != nil {
		return nil, disk.Record{}, fmt.Errorf("encode record: %w", err)
	}
	data, err := json.Marshal(envelope{Version: version, SHA256: sum(text), Record: text})
	if err != nil {
		return nil, disk.Record{}, fmt.Errorf("encode record: %w", err)
	}
	data = append(data, '\n')
	if len(data) > sizeLimit {
		return nil, disk.Record{}, fmt.Errorf("the record has %d bytes, and may have %d", len(data), sizeLimit)
	}
	stored, err := decode(data)
	if err != nil {
		return nil, disk.Record{}, fmt.Errorf("read back record: %w", err)
	}
	given, read := record, stored
	given.Root, read.Root = nil, nil // the same JSON, perhaps in other bytes
	if !reflect.DeepEqual(given, read) {
		return nil, disk.Record{}, errors.New("the record holds text that is not UTF-8")
	}
	return data, stored, nil
}

// decode reads what encode wrote. Every other content is an error, which is
// ErrNewer for what a later release wrote.
func decode(data []byte) (disk.Record, error) {
	var of struct{ Version int } // the rest may have another form
	if err := json.Unmarshal(data, &of); err != nil {
		return disk.Record{}, fmt.Errorf("decode version: %w", err)
	}
	if of.Version > version {
		return disk.Record{}, fmt.Errorf("%w (version %d, this one knows %d)", ErrNewer, of.Version, version)
	}
	if of.Version < version {
		return disk.Record{}, fmt.Errorf("%w (version %d, this release reads version %d)", ErrOlder, of.Version, version)
	}
	var file envelope
	if err := json.Unmarshal(data, &file); err != nil {
		return disk.Record{}, fmt.Errorf("decode: %w", err)
	}
	if file.SHA256 != sum(file.Record) {
		return disk.Record{}, errors.New("the checksum is wrong")
	}
	var record disk.Record
	if err := json.Unmarshal(file.Record, &record); err != nil {
		return disk.Record{}, fmt.Errorf("decode: %w", err)
	}
	if err := strictly(data, &envelope{}); err != nil {
		return disk.Record{}, fmt.Errorf("%w: %w", ErrNewer, err)
	}
	if err := strictly(file.Record, &disk.Record{}); err != nil {
		return disk.Record{}, fmt.Errorf("%w: %w", ErrNewer, err)
	}
	if record.Identity == "" {
		return disk.Record{}, errors.New("it names no disk")
	}
	return record, nil
}

// strictly finds unknown fields.
func strictly(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// salvage reads the identity and the path of a damaged file, if they precede the damage.
func salvage(data []byte) (identity disk.Identity, hostPath string) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var skipped json.RawMessage
	record := func(name string) error {
		switch name {
		case "identity":
			return dec.Decode(&identity)
		case "hostPath":
			return dec.Decode(&hostPath)
		default:
			return dec.Decode(&skipped)
		}
	}
	// The error is that of the damage, which is known.
	_ = eachField(dec, func(name string) error {
		if name == "record" {
			return eachField(dec, record)
		}
		return dec.Decode(&skipped)
	})
	return identity, hostPath
}

// eachField calls visit for each field of the object that comes next; visit reads
// the value.
func eachField(dec *json.Decoder, visit func(name string) error) error {
	if token, err := dec.Token(); err != nil {
		return err
	} else if token != json.Delim('{') {
		return fmt.Errorf("%v is no object", token)
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if err := visit(name); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

var (
	// ErrNewer is why a file of a later release is among the damaged ones. It is
	// whole, and this release would lose what it does not understand.
	ErrNewer = errors.New("written by a newer release of Stowage")
	// ErrOlder is why a file of an earlier release counts as damaged: it does not name its
	// cluster.
	ErrOlder = errors.New("written in an earlier form, which does not name the cluster")
	// ErrLocked means that another provisioner has the folder.
	ErrLocked = errors.New("another provisioner on this node uses it")
)

// Damaged is a file that should hold a record and cannot be read, or not be
// understood. It stays in the folder until an administrator moves it away, and
// the store refuses to write or delete the record of the same identity.
type Damaged struct {
	// File is the name of the file in the folder: fileName of the disk's identity.
	File string
	// Identity is the disk's, if the file still has it.
	Identity disk.Identity
	// HostPath is the path that the file still has, or empty. It may be wrong, since the file
	// is damaged.
	HostPath string
	// Err is what is wrong with the file.
	Err error
}

var _ error = (*Damaged)(nil)

// Error names the file and what to do about it.
func (d *Damaged) Error() string {
	if errors.Is(d.Err, ErrNewer) {
		return fmt.Sprintf("record %s: %v; run that release, or move the file away", d.File, d.Err)
	}
	if errors.Is(d.Err, ErrOlder) {
		return fmt.Sprintf("record %s: %v; remove the file, and the disk is treated as one that was never published (existingData)", d.File, d.Err)
	}
	return fmt.Sprintf("record %s cannot be read: %v; the file is kept; if it is moved away, the disk counts as never published", d.File, d.Err)
}

// Unwrap returns what is wrong with the file.
func (d *Damaged) Unwrap() error { return d.Err }
