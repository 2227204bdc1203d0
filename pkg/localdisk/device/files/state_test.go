// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// changes are what users, kubelet and administrators do to the root of a volume.
var changes = map[string]func(t *testing.T, root string){
	"nothing": func(*testing.T, string) {},
	"kubelet applies an fsGroup": func(t *testing.T, root string) {
		must(t, os.Chown(root, -1, 2000))
		must(t, unix.Chmod(root, 0o2775))
	},
	"another owner, all bits": func(t *testing.T, root string) {
		must(t, os.Chown(root, 1000, 1000))
		must(t, unix.Chmod(root, 0o7777))
	},
	"the recorded attributes are gone": func(t *testing.T, root string) {
		must(t, unix.Removexattr(root, "trusted.admin"))
		run(t, "setfacl", "-b", "-k", root)
	},
	"attributes are added and changed": func(t *testing.T, root string) {
		must(t, unix.Setxattr(root, "trusted.admin", []byte("other"), 0))
		must(t, unix.Setxattr(root, "trusted.tenant", []byte("secret\x00\xff"), 0))
	},
	"ACLs, default ones too": func(t *testing.T, root string) {
		run(t, "setfacl", "-m", "u:1234:rwx,g:77:r,m::rx", root)
		run(t, "setfacl", "-d", "-m", "u:4321:rwx", root)
	},
	"flags": func(t *testing.T, root string) {
		must(t, unix.Chmod(root, 0o700))
		run(t, "chattr", "+ia", root)
	},
}

func TestRestore(t *testing.T) {
	before := map[string]func(t *testing.T, root string){
		"as it is made": func(t *testing.T, root string) {
			must(t, unix.Setxattr(root, "trusted.admin", []byte{}, 0))
		},
		"as it was prepared": func(t *testing.T, root string) {
			must(t, os.Chown(root, 10, 20))
			must(t, unix.Chmod(root, 0o1751))
			must(t, unix.Setxattr(root, "trusted.admin", []byte("by\xffhand"), 0))
			run(t, "setfacl", "-m", "u:55:rwx,d:u:56:r", root)
			run(t, "chattr", "+d", root)
		},
	}
	for name, prepare := range before {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, root string) {
				prepare(t, root)
				r := open(t, root)
				want, err := r.Record()
				must(t, err)
				for change, do := range changes {
					do(t, root)
					must(t, r.Clean(t.Context(), nil))
					must(t, r.Restore(want))
					got, err := r.Record()
					must(t, err)
					if diff := cmp.Diff(string(want), string(got)); diff != "" {
						t.Errorf("%s: -recorded +restored\n%s", change, diff)
					}
				}
			})
		})
	}
}

func TestRestoreOfTheProject(t *testing.T) {
	root := mount(t, "xfs")
	r := open(t, root)
	want, err := r.Record()
	must(t, err)
	run(t, "chattr", "-p", "42", root)
	changed, err := r.Record()
	must(t, err)
	if string(want) == string(changed) {
		t.Error("the project is not recorded")
	}
	must(t, r.Restore(want))
	got, err := r.Record()
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-recorded +restored\n%s", diff)
	}
}

// TestRestoreOfExtendedFlags: xfs has flags and hints that only struct fsxattr shows.
func TestRestoreOfExtendedFlags(t *testing.T) {
	for name, test := range map[string]struct{ before, tenant []string }{
		"a tenant sets them":      {nil, []string{"chattr +nSf", "extsize 1m", "cowextsize 64k"}},
		"a tenant sets RTINHERIT": {nil, []string{"chattr +t"}},
		"a tenant clears them":    {[]string{"extsize 1m", "cowextsize 64k", "chattr +n"}, []string{"extsize 0", "cowextsize 0", "chattr -n"}},
		"a tenant changes hints":  {[]string{"extsize 1m", "cowextsize 64k"}, []string{"extsize 4m", "cowextsize 8k"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := mount(t, "xfs")
			r := open(t, root)
			xfs(t, root, test.before...)
			want := xfs(t, root, "stat")
			recorded, err := r.Record()
			must(t, err)
			xfs(t, root, test.tenant...)
			if want == xfs(t, root, "stat") {
				t.Fatal("the tenant changed nothing")
			}
			must(t, r.Clean(t.Context(), nil))
			must(t, r.Restore(recorded))
			if diff := cmp.Diff(want, xfs(t, root, "stat")); diff != "" {
				t.Errorf("-before +restored\n%s", diff)
			}
		})
	}
}

// xfs runs commands of xfs_io on a directory, and returns the lines of their output on
// struct fsxattr that a user can change.
func xfs(t *testing.T, root string, commands ...string) string {
	t.Helper()
	var lines []string
	for _, command := range commands {
		for line := range strings.Lines(run(t, "xfs_io", "-r", "-c", command, root)) {
			if strings.HasPrefix(line, "fsxattr.") && !strings.HasPrefix(line, "fsxattr.nextents") {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "")
}

// TestRestoreWithoutRecord: what users can attach to a directory is removed, and what only an
// administrator sets is kept.
func TestRestoreWithoutRecord(t *testing.T) {
	onEach(t, func(t *testing.T, root string) {
		r := open(t, root)
		must(t, os.Chown(root, 10, 2000))
		must(t, unix.Chmod(root, 0o2775))
		must(t, unix.Setxattr(root, "trusted.admin", []byte("by hand"), 0))
		run(t, "setfacl", "-m", "u:55:rwx,d:u:56:r", root)
		want, err := r.Record()
		must(t, err)
		if err := unix.Setxattr(root, "user.tenant", []byte("secret"), 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			t.Fatal(err) // tmpfs of older kernels has no such attributes
		}
		run(t, "chattr", "+dA", root)
		changed, err := r.Record()
		must(t, err)
		if string(want) == string(changed) {
			t.Error("the change is not recorded")
		}
		must(t, r.Clean(t.Context(), nil))
		must(t, r.Restore(nil))
		got, err := r.Record()
		must(t, err)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("-before +reset\n%s", diff)
		}
	})
}

func TestRestoreWithoutRecordOnXFS(t *testing.T) {
	root := mount(t, "xfs")
	r := open(t, root)
	run(t, "chattr", "-p", "42", root)
	run(t, "chattr", "+P", root)
	want := xfs(t, root, "stat")
	xfs(t, root, "chattr +n", "extsize 1m", "cowextsize 64k")
	for i := range 1000 { // more than listxattr(2) lists
		must(t, unix.Setxattr(root, fmt.Sprintf("user.%0250d", i), nil, 0))
	}
	must(t, r.Restore(nil))
	got := xfs(t, root, "stat")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-before +reset\n%s", diff)
	}
	if !strings.Contains(got, "fsxattr.projid = 42") || !strings.Contains(got, "fsxattr.xflags = 0x200 ") {
		t.Errorf("the project that an administrator set is lost:\n%s", got)
	}
	must(t, os.Symlink("anywhere", root+"/link"))
	recorded, err := r.Record()
	must(t, err)
	if bytes.Contains(recorded, []byte("attributes")) {
		t.Error("attributes are left")
	}
}

// TestRestoreOfAnOlderRecord: what it did not record is reset.
func TestRestoreOfAnOlderRecord(t *testing.T) {
	root := mount(t, "btrfs")
	r := open(t, root)
	run(t, "btrfs", "property", "set", root, "compression", "zstd")
	recorded, err := r.Record()
	must(t, err)
	var earlier map[string]any
	must(t, json.Unmarshal(recorded, &earlier))
	delete(earlier, "flags") // which had no compression
	recorded, err = json.Marshal(earlier)
	must(t, err)
	run(t, "chattr", "+d", root)
	run(t, "btrfs", "property", "set", root, "compression", "zlib")
	must(t, r.Restore(recorded))
	if got := run(t, "btrfs", "property", "get", root, "compression"); got != "compression=zstd\n" {
		t.Errorf("%q, want what was recorded as an attribute", got)
	}
	if flags := run(t, "lsattr", "-d", root); strings.Contains(strings.Fields(flags)[0], "d") {
		t.Errorf("flags are %q, and had no d", flags)
	}
}

func TestRestoreRemovesMoreThanCanBeRecorded(t *testing.T) {
	root := mount(t, "xfs")
	r := open(t, root)
	want, err := r.Record()
	must(t, err)
	for _, name := range []string{"user.a", "user.b", "user.c", "user.d", "user.e"} {
		must(t, unix.Setxattr(root, name, make([]byte, 64<<10), 0))
	}
	if _, err := r.Record(); err == nil {
		t.Error("more than fits into a record was recorded")
	}
	must(t, r.Restore(want))
	got, err := r.Record()
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-recorded +restored\n%s", diff)
	}
}

// There are so many attributes that listxattr(2) fails, and one was recorded.
func TestRestoreRemovesMoreThanCanBeListed(t *testing.T) {
	const attributes = 1000
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			root := mount(t, kind)
			must(t, unix.Setxattr(root, "user.kept", []byte("by hand"), 0))
			must(t, unix.Setxattr(root, "trusted.admin", []byte("by hand"), 0))
			r := open(t, root)
			want, err := r.Record()
			must(t, err)
			must(t, unix.Setxattr(root, "user.kept", []byte("changed"), 0))
			for i := range attributes {
				must(t, unix.Setxattr(root, fmt.Sprintf("user.%0250d", i), make([]byte, i%100), 0))
			}
			if _, err := r.Record(); !errors.Is(err, unix.E2BIG) {
				t.Errorf("Record: %v", err)
			}
			must(t, r.Restore(want))
			got, err := r.Record()
			must(t, err)
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("-recorded +restored\n%s", diff)
			}
		})
	}
}

func TestDamagedAttributeLists(t *testing.T) {
	list := map[string]func() ([]string, error){
		"xfs: more entries than there can be": func() ([]string, error) { return xfsNames([]byte{255, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0}) },
		"xfs: an entry outside":               func() ([]string, error) { return xfsNames([]byte{1, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0}) },
		"btrfs: no header":                    func() ([]string, error) { return btrfsNames(make([]byte, 10), 1) },
		"btrfs: a long item":                  func() ([]string, error) { return btrfsNames(bytes.Repeat([]byte{1}, 40), 1) },
		"btrfs: a long name": func() ([]string, error) {
			item := make([]byte, 70)
			item[28], item[32+27] = 38, 100
			return btrfsNames(item, 1)
		},
	}
	for name, names := range list {
		t.Run(name, func(t *testing.T) {
			if got, err := names(); !errors.Is(err, unix.EUCLEAN) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestRestoreOfAnInvalidRecord(t *testing.T) {
	root := mount(t, "tmpfs")
	must(t, unix.Chmod(root, 0o712))
	r := open(t, root)
	must(t, r.Restore(nil))
	for _, raw := range []string{"{", "[]", `"x"`, `{"uid":-1}`, `{"attributes":[{"name":"AA==","value":""}]}`} {
		if err := r.Restore(json.RawMessage(raw)); err == nil {
			t.Errorf("%s was restored", raw)
		}
	}
}
