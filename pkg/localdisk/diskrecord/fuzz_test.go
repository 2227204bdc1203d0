// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Every file can be read or is an error, and what is read can be written.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"version":9}`, file(f, "wwn:0x1"), file(f, "wwn:0x1")[:90]} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		given := bytes.Clone(data)
		_, _ = salvage(data)
		read, err := decode(data)
		if !bytes.Equal(given, data) {
			t.Error("the data were changed")
		}
		if err != nil || read.Updated.Location() != time.UTC {
			return
		}
		again, stored, err := encode(read, read.Updated)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		back, err := decode(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if diff := cmp.Diff(stored, back); diff != "" {
			t.Errorf("there and back (-want +got):\n%s", diff)
		}
	})
}

// A file with any wrong byte is not a record.
func FuzzBitRot(f *testing.F) {
	f.Add("wwn:0x1", "/mnt/fast/nvme0", []byte(`{"a":[1,"<"]}`), uint(300), byte(1))
	f.Add("serial:ä:b", "", []byte(nil), uint(30), byte(0x20))
	f.Fuzz(func(t *testing.T, identity, path string, root []byte, at uint, flip byte) {
		given := disk.Record{Identity: disk.Identity(identity), HostPath: path, State: disk.Published, Root: json.RawMessage(root)}
		data, stored, err := encode(given, time.Unix(1, 0))
		if err != nil {
			if identity != "" && utf8.ValidString(identity) && utf8.ValidString(path) && (len(root) == 0 || json.Valid(root)) {
				t.Fatalf("encode: %v", err)
			}
			return
		}
		rotten := bytes.Clone(data)
		rotten[at%uint(len(data))] ^= flip
		got, err := decode(rotten)
		if err == nil && !cmp.Equal(stored, got) {
			t.Errorf("%q was read as %v", rotten, got)
		}
		if left, _ := salvage(data); left != stored.Identity {
			t.Errorf("salvaged %q of a whole file", left)
		}
	})
}
