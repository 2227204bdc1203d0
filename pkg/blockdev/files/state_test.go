// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"encoding/json"
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
