// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

const broken, whole disk.Identity = "wwn:0xbad", "wwn:0x600d"

// file is what the store writes for the disk.
func file(t testing.TB, identity disk.Identity) string {
	t.Helper()
	data, _, err := encode(record(identity), time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sealed gives a record's text the version, and the right checksum.
func sealed(t *testing.T, version int, text string) string {
	t.Helper()
	data, err := json.Marshal(envelope{Version: version, SHA256: sum([]byte(text)), Record: json.RawMessage(text)})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDamagedFiles: a damaged file affects only its own disk, and is not changed.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	good := file(t, broken)
	text := `{"identity":"wwn:0xbad","hostPath":"/mnt/fast/nvme0"}`
	for name, test := range map[string]struct {
		content string
		// What can be read of it.
		identity disk.Identity
		hostPath string
		newer    bool
	}{
		"nothing was written":              {"", "", "", false},
		"zeros were written":               {strings.Repeat("\x00", len(good)), "", "", false},
		"the end is missing":               {good[:len(good)-20], broken, "/mnt/fast/nvme0", false},
		"only the identity is left":        {before(t, good, `,"key"`), broken, "", false},
		"the path is cut off":              {before(t, good, "/nvme0"), broken, "", false},
		"one letter of the state is wrong": {strings.Replace(good, "Published", "Cublished", 1), broken, "/mnt/fast/nvme0", false},
		"the record is another disk's":     {file(t, "wwn:0xother"), "", "/mnt/fast/nvme0", false},
		"something follows the record":     {good + good, broken, "/mnt/fast/nvme0", false},
		"a list":                           {"[]", "", "", false},
		"a record that is no object":       {sealed(t, version, `[1]`), "", "", false},
		"a record that names no disk":      {sealed(t, version, `{"hostPath":"/mnt/fast/nvme0"}`), "", "/mnt/fast/nvme0", false},
		"a field of the wrong type":        {sealed(t, version, strings.Replace(text, `}`, `,"generation":"x"}`, 1)), broken, "/mnt/fast/nvme0", false},
		"no version":                       {sealed(t, 0, text), broken, "/mnt/fast/nvme0", false},
		"the version before this one":      {sealed(t, version-1, text), broken, "/mnt/fast/nvme0", false},
		"a later version":                  {sealed(t, version+1, text), broken, "/mnt/fast/nvme0", true},
		"a later version of another form":  {`{"version":3,"record":"x","sha256":[]}`, "", "", true},
		"a field of a later release":       {sealed(t, version, strings.Replace(text, `}`, `,"owner":"x"}`, 1)), broken, "/mnt/fast/nvme0", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			path := filepath.Join(folder, fileName(broken))
			writeFile(t, path, test.content)
			writeFile(t, filepath.Join(folder, fileName(whole)), file(t, whole))
			s := open(t, folder)

			want := []Damaged{{File: fileName(broken), Identity: test.identity, HostPath: test.hostPath}}
			got := s.Damaged()
			if len(got) == 1 {
				want[0].Err = got[0].Err
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })); diff != "" {
				t.Fatalf("Damaged (-want +got):\n%s", diff)
			}
			if errors.Is(got[0].Err, ErrNewer) != test.newer {
				t.Errorf("error %v, want of a newer release: %t", got[0].Err, test.newer)
			}
			refuses(t, s)
			if data, err := os.ReadFile(path); err != nil || string(data) != test.content {
				t.Errorf("the file was changed: %q, %v", data, err)
			}
		})
	}
}

// refuses checks that the broken disk's record is neither read nor written, and
// that the whole one's is both.
func refuses(t *testing.T, s *Store) {
	t.Helper()
	_, found, err := s.Get(broken)
	for verb, err := range map[string]error{
		"Get": err, "Put": s.Put(record(broken)), "Delete": s.Delete(broken),
	} {
		var damaged *Damaged
		if !errors.As(err, &damaged) || damaged.File != fileName(broken) || found {
			t.Errorf("%s: %v, want that the record cannot be read", verb, err)
		}
	}
	if r, ok := get(t, s, whole); !ok || r.Volume != "local-pv-1" || s.Put(r) != nil {
		t.Error("another disk's record is not there or cannot be written")
	}
	if all := s.All(); len(all) != 1 || all[0].Identity != whole {
		t.Errorf("All: %v, want the whole one", all)
	}
}

// TestEarlierForm: the error for a record that does not name its cluster states what to do.
func TestEarlierForm(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, fileName(broken)), sealed(t, 1, `{"identity":"wwn:0xbad","hostPath":"/mnt/fast/nvme0"}`))
	s := open(t, folder)
	_, _, err := s.Get(broken)
	if !errors.Is(err, ErrOlder) || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("Get: %v, want ErrOlder and what to do about it", err)
	}
}

// An entry that is not a file is damaged too, and does not hang the reader.
func TestEntriesThatAreNotFiles(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(path string) error{
		"a folder":                func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":                  func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link out of the store": func(path string) error { return os.Symlink("/dev/zero", path) },
		"more than a record has":  func(path string) error { return os.WriteFile(path, make([]byte, sizeLimit+1), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if err := create(filepath.Join(folder, fileName(broken))); err != nil {
				t.Fatal(err)
			}
			s := open(t, folder)
			put(t, s, record(whole))
			refuses(t, s)
		})
	}
}

func TestDamagedAtAPath(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	torn := file(t, "weak:boot:7:10")
	writeFile(t, filepath.Join(folder, fileName("weak:boot:7:10")), torn[:len(torn)-20])
	s := open(t, folder)
	if got := s.DamagedAt("/mnt/fast/nvme0"); len(got) != 1 {
		t.Errorf("at the path that the file has: %v", got)
	}
	if got := s.DamagedAt("/mnt/fast/sdb"); len(got) != 0 {
		t.Errorf("at another path: %v", got)
	}
	writeFile(t, filepath.Join(folder, fileName("weak:boot:7:10")), "")
	s.Recheck()
	if got := s.DamagedAt("/mnt/fast/sdb"); len(got) != 1 {
		t.Errorf("a file without a path may be of any: %v", got)
	}
}

// An administrator moves one damaged file away and repairs another.
func TestRecheck(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	repaired := disk.Identity("wwn:0xfixed")
	for _, identity := range []disk.Identity{broken, repaired} {
		writeFile(t, filepath.Join(folder, fileName(identity)), "torn")
	}
	s := open(t, folder)
	s.Recheck()
	if got := s.Damaged(); len(got) != 2 {
		t.Fatalf("damaged: %v, want two", got)
	}
	if err := os.Remove(filepath.Join(folder, fileName(broken))); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(folder, fileName(repaired)), file(t, repaired))
	s.Recheck()
	if got := s.Damaged(); len(got) != 0 {
		t.Errorf("damaged: %v, want none", got)
	}
	if _, ok := get(t, s, broken); ok {
		t.Error("the disk whose file is gone has a record")
	}
	if _, ok := get(t, s, repaired); !ok {
		t.Error("the disk whose file was repaired has no record")
	}
	put(t, s, record(broken))
}

func TestOtherFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	unfinished := fileName(whole) + newSuffix
	strangers := []string{"README", "short.json", "short.json.new", strings.ToUpper(fileName(whole)), fileName(whole) + ".bak"}
	for _, name := range append(strangers, unfinished) {
		writeFile(t, filepath.Join(folder, name), "x")
	}
	s := open(t, folder)
	if got := s.Damaged(); len(got) != 0 {
		t.Errorf("damaged: %v", got)
	}
	for _, name := range strangers {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, unfinished)); !os.IsNotExist(err) {
		t.Errorf("the unfinished record is still there: %v", err)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// before returns what precedes a part of a text.
func before(t *testing.T, text, part string) string {
	t.Helper()
	head, _, ok := strings.Cut(text, part)
	if !ok {
		t.Fatalf("%q is not in %q", part, text)
	}
	return head
}
