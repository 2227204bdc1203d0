// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// writeAt writes to a device and syncs it.
func writeAt(t *testing.T, dev, text string, at int64) {
	t.Helper()
	f, err := os.OpenFile(dev, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), at); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func blankCheck(t testing.TB, dev string) Blank {
	t.Helper()
	return Blank{Device: dev, Sys: "/sys", Bytes: sizeOf(t, dev), Verify: func(*os.File) error { return nil }}
}

// proven returns a proof without the fields that differ between runs.
func proven(p disk.BlankProof) disk.BlankProof {
	if p.State != "" {
		p.State = "read"
	}
	return p
}

func TestProveBlank(t *testing.T) {
	need(t, "losetup")
	const size = 40 * mib
	tests := map[string]struct {
		put     map[int64]string
		sampled disk.Content
		want    disk.BlankProof
	}{
		"zeros": {
			sampled: disk.ContentSampled, want: disk.BlankProof{State: "read", Bytes: size, Done: size},
		},
		"a secret at 20 MiB that no sample meets": {
			put: map[int64]string{20*mib + 12345: "secret"}, sampled: disk.ContentSampled,
			want: disk.BlankProof{State: "read", Bytes: size, Done: 20*mib + 12345, Found: true},
		},
		"one bit before the last MiB": {
			put: map[int64]string{39*mib - 1: "\x01"}, sampled: disk.ContentSampled,
			want: disk.BlankProof{State: "read", Bytes: size, Done: 39*mib - 1, Found: true},
		},
		"the last byte": {
			put: map[int64]string{size - 1: "x"}, sampled: disk.ContentSome,
			want: disk.BlankProof{State: "read", Bytes: size, Done: size - 1, Found: true},
		},
		"old blocks that fill the device": {
			put: map[int64]string{size / 2: string(make([]byte, mib)) + "x", 5 * mib: string(dirtyBytes(12 * mib))}, sampled: disk.ContentSome,
			want: disk.BlankProof{State: "read", Bytes: size, Done: 5 * mib, Found: true},
		},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			dev := loop(t, blank(t, size))
			for at, text := range s.put {
				writeAt(t, dev, text, at)
			}
			content, what, err := Sample(t.Context(), dev, -1)
			if content != s.sampled || err != nil {
				t.Errorf("Sample returns %q (%s), %v, want %q", content, what, err, s.sampled)
			}
			got, err := ProveBlank(t.Context(), blankCheck(t, dev))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.want, proven(got)); diff != "" {
				t.Errorf("proof (-want +got):\n%s", diff)
			}
			if got.Found {
				content, what, err := Sample(t.Context(), dev, got.Done)
				if content != disk.ContentSome || err != nil {
					t.Errorf("Sample of the byte that was found returns %q (%s), %v", content, what, err)
				}
			}
		})
	}
}

func dirtyBytes(n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xa5
	}
	return b
}

// errPaused ends a proof in the middle.
var errPaused = errors.New("paused")

// paused is a proof of the first bytes of a device.
func paused(t *testing.T, b Blank, bytes int64) disk.BlankProof {
	t.Helper()
	b.Progress = func(p disk.BlankProof) error {
		if p.Done >= bytes {
			return errPaused
		}
		return nil
	}
	proof, err := ProveBlank(t.Context(), b)
	if !errors.Is(err, errPaused) || proof.Done < bytes || proof.Complete() {
		t.Fatalf("a proof that was to pause after %d bytes is %+v, %v", bytes, proof, err)
	}
	return proof
}

func TestProofResumesUnlessTheDeviceWasWrittenTo(t *testing.T) {
	need(t, "losetup")
	const size = 40 * mib
	tests := map[string]struct {
		meanwhile func(t *testing.T, dev string)
		void      bool
	}{
		"nothing happened":                    {meanwhile: func(*testing.T, string) {}},
		"another process read it":             {meanwhile: func(t *testing.T, dev string) { bytesOf(t, dev) }},
		"data behind what was read":           {meanwhile: func(t *testing.T, dev string) { writeAt(t, dev, "secret", 2*mib) }, void: true},
		"zeros are written":                   {meanwhile: func(t *testing.T, dev string) { writeAt(t, dev, "\x00", 2*mib) }, void: true},
		"data that is in the page cache only": {meanwhile: dirtyCache, void: true},
		"a discard": {meanwhile: func(t *testing.T, dev string) {
			d, err := openDevice(dev, unix.O_RDWR)
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			if err := d.rangeIoctl(unix.BLKDISCARD, stretch{2 * mib, 3 * mib}); err != nil {
				t.Fatal(err)
			}
		}, void: true},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			b := blankCheck(t, loop(t, blank(t, size)))
			b.From = paused(t, b, 16*mib)
			s.meanwhile(t, b.Device)
			var first int64
			b.Progress = func(p disk.BlankProof) error {
				if first == 0 {
					first = p.Done
				}
				return nil
			}
			proof, err := ProveBlank(t.Context(), b)
			if s.void {
				if !errors.Is(err, disk.ErrBlankProofVoid) || proof != (disk.BlankProof{}) {
					t.Errorf("the proof is %+v, %v, want it to be void", proof, err)
				}
				return
			}
			if err != nil || !proof.Complete() {
				t.Errorf("the proof is %+v, %v", proof, err)
			}
			if want := b.From.Done + chunk; first != want {
				t.Errorf("the first step ends at byte %d, want %d", first, want)
			}
		})
	}
}

// dirtyCache writes to a device through a descriptor that stays open, so that the page cache is
// not written back.
func dirtyCache(t *testing.T, dev string) {
	f, err := os.OpenFile(dev, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteAt([]byte("secret"), 2*mib); err != nil {
		t.Fatal(err)
	}
}

func TestProofIsVoid(t *testing.T) {
	need(t, "losetup")
	t.Run("when the device is written to while it is read", func(t *testing.T) {
		b := blankCheck(t, loop(t, blank(t, 40*mib)))
		b.Progress = func(p disk.BlankProof) error {
			if p.Done == 16*mib {
				writeAt(t, b.Device, "secret", mib)
			}
			return nil
		}
		if proof, err := ProveBlank(t.Context(), b); !errors.Is(err, disk.ErrBlankProofVoid) {
			t.Errorf("the proof is %+v, %v", proof, err)
		}
	})
	t.Run("when the device was written to after it was complete", func(t *testing.T) {
		b := blankCheck(t, loop(t, blank(t, 40*mib)))
		var err error
		if b.From, err = ProveBlank(t.Context(), b); err != nil || !b.From.Complete() {
			t.Fatalf("the proof is %+v, %v", b.From, err)
		}
		b.Progress = func(disk.BlankProof) error { t.Error("a complete proof is read again"); return nil }
		if proof, err := ProveBlank(t.Context(), b); err != nil || !proof.Complete() {
			t.Fatalf("the proof is %+v, %v", proof, err)
		}
		writeAt(t, b.Device, "secret", 20*mib)
		if proof, err := ProveBlank(t.Context(), b); !errors.Is(err, disk.ErrBlankProofVoid) {
			t.Errorf("the proof is %+v, %v", proof, err)
		}
	})
	t.Run("when the node lost its power while the device was read", func(t *testing.T) {
		b := blankCheck(t, loop(t, blank(t, 40*mib)))
		b.From = paused(t, b, 16*mib)
		boot, err := sysfs.BootID()
		rest, ofBoot := strings.CutPrefix(b.From.State, boot+"/")
		if err != nil || !ofBoot {
			t.Fatalf("the proof has state %q, want boot %s first (%v)", b.From.State, boot, err)
		}
		b.From.State = "the-former-boot/" + rest
		if proof, err := ProveBlank(t.Context(), b); !errors.Is(err, disk.ErrBlankProofVoid) {
			t.Errorf("the proof is %+v, %v", proof, err)
		}
	})
	t.Run("when the device was attached again", func(t *testing.T) {
		file := blank(t, 40*mib)
		dev := sh(t, "losetup", "--find", "--show", file)
		from := paused(t, blankCheck(t, dev), 16*mib)
		sh(t, "losetup", "--detach", dev)
		b := blankCheck(t, loop(t, file))
		b.From = from
		if proof, err := ProveBlank(t.Context(), b); !errors.Is(err, disk.ErrBlankProofVoid) {
			t.Errorf("the proof is %+v, %v", proof, err)
		}
	})
}

func TestProofFails(t *testing.T) {
	need(t, "losetup")
	t.Run("a read error, and the proof continues there", func(t *testing.T) {
		file := blank(t, 40*mib)
		b := blankCheck(t, loop(t, file))
		if err := os.Truncate(file, 21*mib); err != nil {
			t.Fatal(err)
		}
		proof, err := ProveBlank(t.Context(), b)
		if !errors.Is(err, unix.EIO) || proof.Done != 20*mib || proof.Found {
			t.Fatalf("the proof is %+v, %v", proof, err)
		}
		if err := os.Truncate(file, 40*mib); err != nil {
			t.Fatal(err)
		}
		b.From = proof
		if proof, err := ProveBlank(t.Context(), b); err != nil || !proof.Complete() {
			t.Errorf("the proof is %+v, %v", proof, err)
		}
	})
	t.Run("its context", func(t *testing.T) {
		b := blankCheck(t, loop(t, blank(t, 40*mib)))
		ctx, cancel := context.WithCancel(t.Context())
		b.Progress = func(p disk.BlankProof) error { cancel(); return nil }
		if proof, err := ProveBlank(ctx, b); !errors.Is(err, context.Canceled) || proof.Done != chunk {
			t.Errorf("the proof is %+v, %v", proof, err)
		}
	})
	t.Run("another device at the path", func(t *testing.T) {
		b := blankCheck(t, loop(t, blank(t, 40*mib)))
		other := errors.New("another disk")
		b.Verify = func(*os.File) error { return other }
		if proof, err := ProveBlank(t.Context(), b); !errors.Is(err, other) || proof.Done != 0 {
			t.Errorf("the proof is %+v, %v", proof, err)
		}
	})
	t.Run("a device whose writes are not counted", func(t *testing.T) {
		b := blankCheck(t, loop(t, blank(t, 40*mib)))
		setting := "/sys/block/" + b.Device[len("/dev/"):] + "/queue/iostats"
		if err := os.WriteFile(setting, []byte("0"), 0); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() {
			if err := os.WriteFile(setting, []byte("1"), 0); err != nil {
				t.Error(err)
			}
		})
		proof, err := ProveBlank(t.Context(), b)
		if problem, ok := errors.AsType[*disk.Problem](err); !ok || problem.Reason != disk.Unreadable {
			t.Errorf("the proof is %+v, %v", proof, err)
		}
	})
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(chunk) // one chunk per second
		begin := time.Now()
		for range 5 {
			if err := p.WaitN(t.Context(), int(chunk)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("five chunks took %s, want 5s", took)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time: a disk that hung
		begin = time.Now()
		for range 5 {
			if err := p.WaitN(t.Context(), int(chunk)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 4*time.Second {
			t.Errorf("after a pause five chunks took %s, want 4s", took)
		}
	})
}

func TestParseFields(t *testing.T) {
	tests := map[string]struct {
		text string
		want []uint64
	}{
		"nothing":       {},
		"as sysfs does": {"  1   22      333\n", []uint64{1, 22, 333}},
		"no newline":    {"4 5", []uint64{4, 5}},
		"too many":      {"1 2 3 4 5 6", []uint64{1, 2, 3, 4}},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			var into [4]uint64
			n := parseFields([]byte(s.text), into[:])
			if diff := cmp.Diff(s.want, append([]uint64(nil), into[:n]...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// BenchmarkFirstSet: how fast zeros are distinguished from data, per core.
func BenchmarkFirstSet(b *testing.B) {
	p := make([]byte, 64*mib) // more than caches hold
	for i := range p {
		p[i] = 0
	}
	at := int64(0)
	b.SetBytes(chunk)
	for b.Loop() {
		if firstSet(p[at:at+chunk]) >= 0 {
			b.Fatal("not zero")
		}
		at = (at + chunk) % int64(len(p))
	}
}

// BenchmarkProveBlank: a loop device in memory, whose driver is most of what is measured.
// What is allocated is per device, not per chunk.
func BenchmarkProveBlank(b *testing.B) {
	const size = 512 * mib
	dev := loop(b, blank(b, size))
	check := blankCheck(b, dev)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if proof, err := ProveBlank(b.Context(), check); err != nil || !proof.Complete() {
			b.Fatalf("the proof is %+v, %v", proof, err)
		}
	}
}
