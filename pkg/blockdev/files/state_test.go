// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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

func TestRestoreBringsBackWhatWasRecorded(t *testing.T) {
	before := map[string]func(t *testing.T, root string){
		"as it is made": func(t *testing.T, root string) {
			must(t, unix.Setxattr(root, "trusted.admin", []byte{}, 0))
		},
		"as somebody prepared it": func(t *testing.T, root string) {
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

// So many attributes that listxattr(2) fails, of which one was recorded.
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

func TestNamesOfAttributesInADamagedListAreRefused(t *testing.T) {
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

func TestRestoreOfWhatIsNoRecord(t *testing.T) {
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
