// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// whole is a report with all fields.
var whole = Report{
	Handle: new("bucket-1"), Capacity: new("10Gi"), Error: "mkfs: <no space> & “more”\n\ttwice", Reschedule: true,
	Volume:   Volume{Kind: BlockDevice, Bytes: 1 << 60, FileSystem: "0:4294967295", Inode: 1<<64 - 1, Device: "4095:1048575"},
	Problems: []string{"/pav/capacity: is a directory, must be a regular file"},
}

func encode(t testing.TB, r Report, limit int) string {
	t.Helper()
	message, err := Encode(r, limit)
	if err != nil {
		t.Fatal(err)
	}
	if len(message) > limit || !utf8.ValidString(message) {
		t.Fatalf("a message of %d bytes, want valid UTF-8 of at most %d:\n%q", len(message), limit, message)
	}
	return message
}

func TestEncode(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", MaxBytes)
	for name, test := range map[string]struct {
		report Report
		limit  int
		want   func(got Report) Report // what is compared, from what was decoded
	}{
		"nothing":                  {limit: MinBytes, want: func(Report) Report { return Report{} }},
		"everything":               {report: whole, limit: MaxBytes, want: func(Report) Report { return whole }},
		"empty files are no files": {report: Report{Handle: new("")}, limit: MinBytes, want: func(Report) Report { return Report{Handle: new("")} }},
		"bytes that are no text": {report: Report{Error: "a\xffb"}, limit: MinBytes,
			want: func(Report) Report { return Report{Error: "a\uFFFDb"} }},
		"a long error is shortened and the handle kept": {
			report: Report{Error: long, Handle: new("h")}, limit: MinBytes,
			want: func(got Report) Report {
				kept := strings.TrimSuffix(got.Error, shortened)
				if n := len(kept); n < 400 || n > 450 || !strings.HasPrefix(long, kept) || kept == got.Error {
					t.Errorf("error %q", got.Error)
				}
				return Report{Error: got.Error, Handle: new("h")}
			},
		},
		"a long error with escapes": {
			report: Report{Error: strings.Repeat("\x01", MaxBytes)}, limit: MinBytes,
			want: func(got Report) Report {
				return Report{Error: strings.Repeat("\x01", 77) + shortened}
			},
		},
		"a handle that is too long is a problem, the error is kept": {
			report: Report{Handle: new(long), Capacity: new("1"), Error: "e"}, limit: MinBytes,
			want: func(Report) Report {
				return Report{Capacity: new("1"), Error: "e", Problems: []string{"/pav/handle: has 8192 bytes, which do not fit into a report"}}
			},
		},
		"handle and capacity that are too long": {
			report: Report{Handle: new(long), Capacity: new(long)}, limit: MaxBytes,
			want: func(Report) Report {
				return Report{Problems: []string{"/pav/handle: has 8192 bytes, which do not fit into a report", "/pav/capacity: has 8192 bytes, which do not fit into a report"}}
			},
		},
		"too many problems, the volume is kept": {
			report: Report{Volume: whole.Volume, Problems: []string{long}}, limit: MinBytes,
			want: func(Report) Report {
				return Report{Volume: whole.Volume, Problems: []string{"/pav: more problems than a report has space for"}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Decode(encode(t, test.report, test.limit))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want(got), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestEncodeKeepsArgument: the report's slices are not written to.
func TestEncodeKeepsArgument(t *testing.T) {
	t.Parallel()
	problems := append(make([]string, 0, 9), "one")
	encode(t, Report{Handle: new(strings.Repeat("h", MaxBytes)), Problems: problems}, MinBytes)
	if got := problems[:2][1]; got != "" {
		t.Errorf("Encode wrote %q behind the problems", got)
	}
}

func TestEncodeLimits(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{-1, 0, MinBytes - 1, MaxBytes + 1} {
		if message, err := Encode(Report{}, limit); err == nil {
			t.Errorf("limit %d is accepted: %q", limit, message)
		}
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	got := map[int]int{}
	for _, containers := range []int{1, 2, 3, 4, MaxContainers, MaxContainers + 1} {
		got[containers] = Limit(containers)
	}
	if diff := cmp.Diff(map[int]int{1: 4096, 2: 4096, 3: 4096, 4: 3072, 24: 512, 25: 491}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	message := encode(t, whole, MaxBytes)
	for name, test := range map[string]struct {
		message string
		want    error
	}{
		"nothing":                       {"", ErrMissing},
		"one byte":                      {message[:1], ErrCut},
		"the beginning of the header":   {message[:len(magic)+3], ErrCut},
		"the header":                    {message[:headerBytes], ErrCut},
		"all but the last byte":         {message[:len(message)-1], ErrCut},
		"all but the first byte":        {message[1:], ErrDamaged},
		"one byte too many":             {message + "\n", ErrDamaged},
		"another text":                  {"OOMKilled", ErrDamaged},
		"another text before it":        {"OOMKilled: " + message, ErrDamaged},
		"another version":               {strings.Replace(message, "/1", "/2", 1), ErrDamaged},
		"a negative length":             {magic + "-001 00000000 ", ErrDamaged},
		"a length with a sign":          {magic + "+002 " + encode(t, Report{}, MinBytes)[len(magic)+5:], ErrDamaged},
		"a checksum in capital letters": {message[:len(magic)+4] + strings.ToUpper(message[len(magic)+4:headerBytes]) + message[headerBytes:], ErrDamaged},
		"no JSON":                       {magic + "0001 e16dcdee x", ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Decode(test.message)
			if !errors.Is(err, test.want) {
				t.Errorf("report %+v, error %v, want %v", got, err, test.want)
			}
		})
	}
}

// TestDecodeChanged: a report is refused if any of its bytes is another one, if it is cut anywhere,
// and with a byte more.
func TestDecodeChanged(t *testing.T) {
	t.Parallel()
	message := []byte(encode(t, whole, MaxBytes))
	for i, was := range message {
		if _, err := Decode(string(message[:i])); i > 0 && !errors.Is(err, ErrCut) {
			t.Errorf("cut to %d bytes: error %v", i, err)
		}
		for other := range 256 {
			message[i] = byte(other)
			if _, err := Decode(string(message)); (err == nil) != (byte(other) == was) {
				t.Errorf("byte %d is %#x instead of %#x: error %v", i, other, was, err)
			}
		}
		message[i] = was
	}
}

// TestRoundTrip: reports that fit are decoded as they are, and all others within their limit.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	text := func(most int) string {
		runes := make([]rune, random.IntN(most))
		for i := range runes {
			runes[i] = []rune("a\"\\\n\x00<&ä€\U0001F600\u2028\uFFFD")[random.IntN(12)]
		}
		return string(runes)
	}
	for range 2000 {
		r := Report{Error: text(600), Reschedule: random.IntN(2) == 0, Problems: []string{text(50)}}
		if random.IntN(2) == 0 {
			r.Handle, r.Volume = new(text(300)), Volume{Kind: Directory, FileSystem: "8:1", Inode: random.Uint64()}
		}
		if random.IntN(2) == 0 {
			r.Capacity = new(text(20))
		}
		limit := MinBytes + random.IntN(MaxBytes-MinBytes+1)
		got, err := Decode(encode(t, r, limit))
		if err != nil {
			t.Fatal(err)
		}
		body, err := r.body()
		if err != nil {
			t.Fatal(err)
		}
		if headerBytes+len(body) > limit { // something was left out
			if cut, isCut := strings.CutSuffix(got.Error, shortened); !strings.HasPrefix(r.Error, cut) || !isCut && got.Error != r.Error && got.Error != "" {
				t.Fatalf("error %q of %q", got.Error, r.Error)
			}
			if got.Volume != r.Volume || got.Reschedule != r.Reschedule {
				t.Fatalf("got %+v of %+v", got, r)
			}
			continue
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// FuzzDecode: what is not accepted is one of the three errors, and what is accepted is refused with
// another byte and without its end.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, whole, MaxBytes), uint(70), byte(1))
	f.Add(encode(f, Report{}, MinBytes), uint(0), byte(0x80))
	f.Add(magic+"0000 00000000 ", uint(3), byte(32))
	f.Fuzz(func(t *testing.T, message string, at uint, change byte) {
		if _, err := Decode(message); err != nil {
			if !errors.Is(err, ErrMissing) && !errors.Is(err, ErrCut) && !errors.Is(err, ErrDamaged) {
				t.Fatalf("error %v of another kind", err)
			}
			message = encode(t, Report{Error: message, Handle: &message}, MinBytes+int(at%(MaxBytes-MinBytes+1)))
			if _, err := Decode(message); err != nil {
				t.Fatal(err)
			}
		}
		index := int(at % uint(len(message)))
		if r, err := Decode(message[:index]); err == nil {
			t.Fatalf("cut to %d bytes: %+v", index, r)
		}
		changed := []byte(message)
		changed[index] ^= max(change, 1)
		if r, err := Decode(string(changed)); err == nil {
			t.Fatalf("byte %d changed: %+v", index, r)
		}
	})
}
