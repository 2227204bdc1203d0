// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// An image is read in pages, and cached in blocks, which are smaller: several disks are inspected
// at a time, and signatures are short and far apart.
const pageSize, blockSize = 64 * kib, 4 * kib

// image is a device's content. Reads begin at multiples of pageSize and end there or at the
// image's end.
type image struct {
	from   io.ReaderAt
	size   int64
	blocks map[int64][]byte // by offset
	// buf is for the page that was read last: last, which begins at lastAt.
	buf, last []byte
	lastAt    int64
}

func newImage(from io.ReaderAt, size int64) *image {
	return &image{from: from, size: size, blocks: map[int64][]byte{}, buf: make([]byte, pageSize)}
}

// page returns the page that begins at an offset, until the next call.
func (m *image) page(at int64) ([]byte, error) {
	if m.last != nil && m.lastAt == at {
		return m.last, nil
	}
	m.last = nil
	p := m.buf[:min(pageSize, m.size-at)]
	if _, err := io.ReadFull(io.NewSectionReader(m.from, at, int64(len(p))), p); err != nil {
		return nil, fmt.Errorf("read %d bytes at %d: %w", len(p), at, err)
	}
	m.last, m.lastAt = p, at
	return p, nil
}

// block returns the block that begins at an offset.
func (m *image) block(at int64) ([]byte, error) {
	if b, ok := m.blocks[at]; ok {
		return b, nil
	}
	p, err := m.page(at - at%pageSize)
	if err != nil {
		return nil, err
	}
	p = p[at%pageSize:]
	b := bytes.Clone(p[:min(blockSize, int64(len(p)))])
	m.blocks[at] = b
	return b, nil
}

// holds reports whether a string is at an offset, false outside the image.
func (m *image) holds(magic string, at int64) (bool, error) {
	if at < 0 || at > m.size-int64(len(magic)) {
		return false, nil
	}
	for magic != "" {
		b, err := m.block(at - at%blockSize)
		if err != nil {
			return false, err
		}
		here := b[at%blockSize:]
		n := min(len(here), len(magic))
		if string(here[:n]) != magic[:n] {
			return false, nil
		}
		magic, at = magic[n:], at+int64(n)
	}
	return true, nil
}

// firstSet returns the offset of the first byte in a stretch that is not zero; -1 if all are.
func (m *image) firstSet(s stretch) (int64, error) {
	for at := s.from; at < s.to; {
		p, err := m.page(at - at%pageSize)
		if err != nil {
			return 0, err
		}
		here := p[at%pageSize:]
		here = here[:min(int64(len(here)), s.to-at)]
		if i := firstSet(here); i >= 0 {
			return at + int64(i), nil
		}
		at += int64(len(here))
	}
	return -1, nil
}

// firstSet returns the index of the first byte that is not zero; -1 if all are.
func firstSet(p []byte) int {
	for i := 0; i < len(p); {
		n := min(len(p)-i, len(zeros))
		if !bytes.Equal(p[i:i+n], zeros[:n]) {
			for p[i] == 0 {
				i++
			}
			return i
		}
		i += n
	}
	return -1
}

var zeros [4096]byte

// dataAt describes data without a known signature.
func dataAt(at int64) string { return fmt.Sprintf("data at byte %d", at) }

// shown is how many signatures are named at most.
const shown = 5

// inspect describes what a clean for a mode should have removed from an image; empty if
// nothing was found.
func inspect(m *image, mode disk.Mode) (string, error) {
	var found []string
	for _, s := range signatures() {
		if len(found) == shown {
			break
		}
		at, err := s.find(m)
		if err != nil {
			return "", err
		}
		name := fmt.Sprintf("%s at byte %d", s.name, at)
		if at >= 0 {
			found = append(found, name)
		}
	}
	if len(found) > 0 || mode != disk.Block {
		return strings.Join(found, ", "), nil
	}
	for _, s := range []stretch{{0, min(mib, m.size)}, {max(0, m.size-mib), m.size}} {
		at, err := m.firstSet(s)
		if err != nil {
			return "", err
		}
		if at >= 0 {
			return dataAt(at), nil
		}
	}
	return "", nil
}

// Inspect checks whether a block device is as a clean for a mode must leave it, and describes
// what was found if not: it must have no known signature, and for mode Block the first and the
// last MiB must be zero. That proves nothing of a device that was not cleaned; see Sample and
// ProveBlank. It reads past the page cache and changes nothing; the device may be in use.
// Anything but a block device is a disk.Problem, SpecialFile, and is not opened.
func Inspect(ctx context.Context, path string, mode disk.Mode) (disk.Content, string, error) {
	return examine(path, disk.ContentNone, func(d *device) (string, error) { return d.inspect(ctx, mode) })
}

// examine opens a device to search it for data, and returns clean if there is none.
func examine(path string, clean disk.Content, search func(*device) (string, error)) (disk.Content, string, error) {
	d, err := openDevice(path, unix.O_RDONLY)
	if err != nil {
		return disk.ContentUnknown, "", fmt.Errorf("inspect: %w", err)
	}
	defer d.close()
	what, err := search(d)
	switch {
	case err != nil:
		return disk.ContentUnknown, "", fmt.Errorf("inspect %s: %w", path, err)
	case what != "":
		return disk.ContentSome, what, nil
	default:
		return clean, "", nil
	}
}

// ReadStart reads the first bytes of a block device past the page cache, or all if it has fewer.
// verify is called with the open device before.
func ReadStart(path string, bytes int64, verify func(*os.File) error) ([]byte, error) {
	d, err := openDevice(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer d.close()
	if err := verify(d.file); err != nil {
		return nil, fmt.Errorf("verify identity: %w", err)
	}
	start := make([]byte, min(bytes, d.size))
	_, err = d.ReadAt(start, 0)
	return start, err
}

func (d *device) inspect(ctx context.Context, mode disk.Mode) (string, error) {
	return inspect(newImage(reader{ctx, d}, d.size), mode)
}

// reader reads a device until its context ends.
type reader struct {
	ctx context.Context
	d   *device
}

func (r reader) ReadAt(p []byte, at int64) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.d.ReadAt(p, at)
}
