// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// errPowerCut is what every call returns from the power cut on.
var errPowerCut = errors.New("power cut")

// content is the content of a file: as read, and on disk.
type content struct{ seen, onDisk string }

// model is a folder. What was synced survives a power cut, and perhaps some of the rest.
type model struct {
	seen, onDisk map[string]*content
	// pending are the changes of names that are not on disk yet.
	pending []func(names map[string]*content)
	// steps are left before the power cut; negative: there is none.
	steps int
}

var _ folder = (*model)(nil)

func newModel(steps int) *model {
	return &model{seen: map[string]*content{}, onDisk: map[string]*content{}, steps: steps}
}

// step does something, unless the power is cut before.
func (m *model) step(do func()) error {
	if m.steps == 0 {
		return errPowerCut
	}
	m.steps--
	do()
	return nil
}

func (m *model) change(names func(map[string]*content)) {
	names(m.seen)
	m.pending = append(m.pending, names)
}

func (m *model) names() ([]string, error) { return slices.Sorted(maps.Keys(m.seen)), nil }

func (m *model) read(name string) ([]byte, error) {
	if file, ok := m.seen[name]; ok {
		return []byte(file.seen), nil
	}
	return nil, fs.ErrNotExist
}

func (m *model) write(name string, data []byte) error {
	file, ok := m.seen[name]
	if !ok {
		file = &content{}
	}
	return errors.Join(
		m.step(func() {
			file.seen = ""
			if !ok {
				m.change(func(names map[string]*content) { names[name] = file })
			}
		}),
		m.step(func() { file.seen = string(data[:len(data)/2]) }),
		m.step(func() { file.seen = string(data) }),
		m.step(func() { file.onDisk = file.seen }),
	)
}

func (m *model) rename(from, to string) error {
	return m.step(func() {
		m.change(func(names map[string]*content) {
			if file, ok := names[from]; ok {
				names[to] = file
				delete(names, from)
			}
		})
	})
}

func (m *model) remove(name string) error {
	if _, ok := m.seen[name]; !ok {
		return fs.ErrNotExist
	}
	return m.step(func() {
		m.change(func(names map[string]*content) { delete(names, name) })
	})
}

func (m *model) sync() error {
	return m.step(func() { m.onDisk, m.pending = maps.Clone(m.seen), nil })
}

func (m *model) Close() error { return nil }

// remains returns every folder that may be found after the power cut: with some
// of the changes of names, and with contents that were not synced as seen, as
// synced, empty, or zeros.
func (m *model) remains() []*model {
	var folders []*model
	for kept := range len(m.pending) + 1 {
		names := maps.Clone(m.onDisk)
		for _, change := range m.pending[:kept] {
			change(names)
		}
		for _, lost := range []func(*content) string{
			func(c *content) string { return c.seen },
			func(c *content) string { return c.onDisk },
			func(*content) string { return "" },
			func(c *content) string { return strings.Repeat("\x00", len(c.seen)) },
		} {
			left := newModel(-1)
			for name, file := range names {
				text := file.onDisk
				if file.seen != file.onDisk {
					text = lost(file)
				}
				left.seen[name] = &content{text, text}
			}
			left.onDisk = maps.Clone(left.seen)
			folders = append(folders, left)
		}
	}
	return folders
}

// writes are those of a provisioner, one after the other.
var writes = []func(*Store) error{
	func(s *Store) error { return s.Put(record("wwn:0x1")) },
	func(s *Store) error { return s.Put(inState("wwn:0x1", disk.Cleaning)) },
	func(s *Store) error { return s.Put(record("wwn:0x2")) },
	func(s *Store) error { return s.Put(inState("wwn:0x1", disk.Clean)) },
	func(s *Store) error { return s.Delete("wwn:0x1") },
	func(s *Store) error { return s.Put(record("wwn:0x1")) },
	func(s *Store) error { return s.Delete("wwn:0x2") },
}

func inState(identity disk.Identity, state disk.State) disk.Record {
	r := record(identity)
	r.State = state
	return r
}

// summary is what a store returns, in short.
func summary(s *Store) string {
	var lines []string
	for _, r := range s.All() {
		lines = append(lines, fmt.Sprintf("%s %s", r.Identity, r.State))
	}
	return strings.Join(lines, ", ")
}

// TestPowerCut cuts the power before every step of the writes, opens every
// folder that may be left, and cuts the power there again while it is opened and
// written to. What was acknowledged is there, what was not is there or is not, and
// nothing is damaged.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	cuts := 0
	for steps := 0; ; steps++ {
		m := newModel(steps)
		before, after, finished := writeAll(t, m)
		if finished {
			break
		}
		for _, left := range m.remains() {
			cuts++
			reopened(t, fmt.Sprintf("cut before step %d", steps), left, []string{before, after})
		}
		killed(t, steps)
	}
	if cuts < 100 {
		t.Errorf("only %d folders were opened", cuts)
	}
}

// writeAll writes until the power is cut, and returns the summary of the store before the
// write that was cut, and the one that would have been after it.
func writeAll(t *testing.T, m *model) (before, after string, finished bool) {
	t.Helper()
	s, err := loadAll(m)
	if err != nil {
		return "", "", false
	}
	for i, write := range writes {
		before = summary(s)
		if err := write(s); errors.Is(err, errPowerCut) {
			if summary(s) != before {
				t.Errorf("write %d failed, and the store returns %q instead of %q", i, summary(s), before)
			}
			sound := newModel(-1)
			other, err := loadAll(sound)
			for _, write := range writes[:i+1] {
				err = errors.Join(err, write(other))
			}
			if err != nil {
				t.Fatal(err)
			}
			return before, summary(other), false
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return "", "", true
}

// killed kills the provisioner before a step, and cuts the power only after the next
// provisioner has read the records: what it read is still there.
func killed(t *testing.T, steps int) {
	t.Helper()
	m := newModel(steps)
	_, _, _ = writeAll(t, m)
	m.steps = -1
	s, err := loadAll(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range m.remains() {
		reopened(t, fmt.Sprintf("killed before step %d", steps), left, []string{summary(s)})
	}
}

// reopened opens a folder, with and without another power cut meanwhile.
func reopened(t *testing.T, test string, left *model, want []string) {
	t.Helper()
	for steps := range 4 {
		again := newModel(steps)
		for name, file := range left.seen {
			again.seen[name] = &content{file.seen, file.onDisk}
		}
		again.onDisk = maps.Clone(again.seen)
		if s, err := loadAll(again); err == nil {
			_ = s.Put(record("wwn:0x9")) // or not
		}
		for _, after := range again.remains() {
			s, err := loadAll(after)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Damaged(); len(got) > 0 {
				t.Fatalf("%s: damaged: %v", test, got[0].Err)
			}
			if err := s.Delete("wwn:0x9"); err != nil {
				t.Fatal(err)
			}
			if got := summary(s); !slices.Contains(want, got) {
				t.Fatalf("%s: the store returns %q, want one of %q", test, got, want)
			}
			for name := range after.seen {
				if !ofRecord(name) {
					t.Fatalf("%s: %s is left", test, name)
				}
			}
		}
	}
}
