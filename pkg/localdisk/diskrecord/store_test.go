// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// ignoreTime ignores what the store sets.
var ignoreTime = cmpopts.IgnoreFields(disk.Record{}, "Updated")

func record(identity disk.Identity) disk.Record {
	return disk.Record{
		Identity: identity, Key: disk.Key{Class: "fast", Name: "nvme0"}, HostPath: "/mnt/fast/nvme0",
		Kind: disk.Device, Mode: disk.Block, State: disk.Published, Volume: "local-pv-1", UID: "u-1", Generation: 3,
		Policy: disk.Delete, Cluster: "c-1", Phase: disk.PhaseBound, Step: "zero:4096", Root: json.RawMessage(`{"mode":493}`),
	}
}

func open(t *testing.T, folder string) *Store {
	t.Helper()
	s, err := Open(folder, "/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // some tests have closed it
	return s
}

func put(t *testing.T, s *Store, records ...disk.Record) {
	t.Helper()
	for _, r := range records {
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
	}
}

func get(t *testing.T, s *Store, identity disk.Identity) (disk.Record, bool) {
	t.Helper()
	r, ok, err := s.Get(identity)
	if err != nil {
		t.Fatal(err)
	}
	return r, ok
}

func TestRecordsOutliveTheStore(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "lib", "stowage", "disks")
	s := open(t, folder)
	before := time.Now()
	first, second := record("wwn:0x1"), record("serial:Model & <Co>:ä%3A1")
	second.HostPath, second.Volume, second.Root = "/mnt/fast/sdb", "", nil
	put(t, s, first, second)

	got, _ := get(t, s, first.Identity)
	if got.Updated.Before(before.Round(0)) {
		t.Errorf("Updated is %s, before the record was written", got.Updated)
	}
	all := s.All()
	if diff := cmp.Diff([]disk.Record{second, first}, all, ignoreTime); diff != "" {
		t.Errorf("All (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(first); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Put after Close: %v, want that it is closed", err)
	}

	again := open(t, folder)
	if diff := cmp.Diff(all, again.All()); diff != "" {
		t.Errorf("after reopening (-before +after):\n%s", diff)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v; want that others cannot read it", info.Mode(), err)
	}
}

// TestLookups: lookups return what a search of all records would find, after any writes,
// deletions, damages and repairs.
func TestLookups(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder)
	check := func(when string) {
		t.Helper()
		paths, names, weak := map[string][]disk.Record{}, map[string][]disk.Record{}, []disk.Identity(nil)
		for _, r := range s.All() {
			paths[r.HostPath], names[r.Identity.Name()] = append(paths[r.HostPath], r), append(names[r.Identity.Name()], r)
			if r.State.Dirty() && r.Identity.Weak() {
				weak = append(weak, r.Identity)
			}
		}
		for _, path := range []string{"/mnt/fast/nvme0", "/mnt/fast/other", "/mnt/fast", ""} {
			if diff := cmp.Diff(paths[path], s.ByPath(path)); diff != "" {
				t.Errorf("%s, at %q (-want +got):\n%s", when, path, diff)
			}
		}
		for _, name := range []string{"serial:m:1", "wwn:0x1", "weak:b1:1", "serial:m:9", ""} {
			if diff := cmp.Diff(names[name], s.ByName(name)); diff != "" {
				t.Errorf("%s, of name %q (-want +got):\n%s", when, name, diff)
			}
		}
		if diff := cmp.Diff(weak, slices.Sorted(slices.Values(s.DirtyWeak()))); diff != "" {
			t.Errorf("%s, dirty and weak (-want +got):\n%s", when, diff)
		}
	}
	check("empty")
	moved, clean := record("weak:b1:1"), record("weak:b1:2")
	put(t, s, record("serial:m:1@b"), record("serial:m:1@a"), record("wwn:0x1"), moved, clean)
	check("written")
	if got := len(s.ByName("serial:m:1")); got != 2 {
		t.Errorf("%d records of a disk on two machines, want 2", got)
	}
	moved.HostPath, clean.State = "/mnt/fast/other", disk.Clean
	put(t, s, moved, clean)
	check("written again")
	if err := s.Delete("serial:m:1@a"); err != nil {
		t.Fatal(err)
	}
	check("deleted")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, fileName("weak:b1:1"))
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, folder)
	check("opened again with a damaged record")
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Recheck()
	check("repaired")
	if got := s.DirtyWeak(); !slices.Equal(got, []disk.Identity{"weak:b1:1"}) {
		t.Errorf("dirty and weak are %q", got)
	}
	if _, ok := get(t, s, "wwn:0x4"); ok {
		t.Error("a disk without a record has one")
	}
	if _, ok := get(t, s, ""); ok {
		t.Error("an unknown identity has a record")
	}
}

// Changes to returned records do not change the store.
func TestRecordsAreCopies(t *testing.T) {
	t.Parallel()
	s, given := open(t, t.TempDir()), record("wwn:0x1")
	put(t, s, given)
	want, _ := get(t, s, "wwn:0x1")
	want.Root = json.RawMessage(string(want.Root))
	spoil := func(r disk.Record) { copy(r.Root, "spoilt") }
	spoil(given)
	spoil(s.All()[0])
	spoil(s.ByPath(given.HostPath)[0])
	got, _ := get(t, s, "wwn:0x1")
	spoil(got)
	got, _ = get(t, s, "wwn:0x1")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the store's record (-before +after):\n%s", diff)
	}
}

// TestCloseUnlocks: a descriptor that a child process inherited does not keep the records locked
// after they are closed.
func TestCloseUnlocks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder)
	inherited, err := unix.Dup(int(s.folder.(*locked).self.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(inherited) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, folder)
}

func TestDelete(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder)
	put(t, s, record("wwn:0x1"), record("wwn:0x2"))
	for range 2 { // the second time there is nothing to delete
		if err := s.Delete("wwn:0x1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, open(t, folder)} {
		if diff := cmp.Diff([]disk.Record{record("wwn:0x2")}, s.All(), ignoreTime); diff != "" {
			t.Errorf("what is left (-want +got):\n%s", diff)
		}
	}
}

func TestRejectedRecords(t *testing.T) {
	t.Parallel()
	with := func(change func(*disk.Record)) disk.Record {
		r := record("wwn:0x1")
		change(&r)
		return r
	}
	for name, r := range map[string]disk.Record{
		"no identity":                     {HostPath: "/mnt/fast/nvme0", State: disk.Clean},
		"an identity that is not UTF-8":   with(func(r *disk.Record) { r.Identity = "serial:\xff:1" }),
		"a path that is not UTF-8":        with(func(r *disk.Record) { r.HostPath = "/mnt/\xff" }),
		"a root that is not JSON":         with(func(r *disk.Record) { r.Root = json.RawMessage("{") }),
		"more than a file may have":       with(func(r *disk.Record) { r.Step = string(make([]byte, sizeLimit)) }),
		"a name with a broken character":  with(func(r *disk.Record) { r.Key.Name = "\xc3" }),
		"a class with a broken character": with(func(r *disk.Record) { r.Key.Class = "\xc3" }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			s := open(t, folder)
			if err := s.Put(r); err == nil {
				t.Error("Put took it")
			}
			if names, err := os.ReadDir(folder); err != nil || len(names) > 0 || len(s.All()) > 0 {
				t.Errorf("left in folder: %v, %v; in store: %v", names, err, s.All())
			}
		})
	}
}

func TestFolderIsLocked(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder)
	if _, err := Open(folder, "/proc"); !errors.Is(err, ErrLocked) {
		t.Fatalf("second Open: %v, want %v", err, ErrLocked)
	}
	put(t, s, record("wwn:0x1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := open(t, folder).All(); len(got) != 1 {
		t.Errorf("after Close the next one reads %v", got)
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "disks")} {
		if _, err := Open(path, "/proc"); err == nil {
			t.Errorf("Open(%s) has made a folder of a file", path)
		}
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	identities := []disk.Identity{"wwn:0x1", "wwn:0x2", "wwn:0x3"}
	var everybody sync.WaitGroup
	for _, identity := range identities {
		everybody.Go(func() {
			for i := range int64(20) {
				r := record(identity)
				r.Generation = i
				if err := s.Put(r); err != nil {
					t.Error(err)
				}
				if got, ok, err := s.Get(identity); !ok || err != nil || got.Generation != i {
					t.Errorf("read %v, %t, %v after writing %d", got, ok, err, i)
				}
			}
			if err := s.Delete(identity); err != nil {
				t.Error(err)
			}
		})
		everybody.Go(func() {
			for range 200 {
				_, _ = s.All(), s.DirtyWeak()
				_, _ = s.ByPath("/mnt/fast/nvme0"), s.Damaged()
				s.Recheck()
			}
		})
	}
	everybody.Wait()
	if all := s.All(); len(all) > 0 {
		t.Errorf("left: %v", all)
	}
}
