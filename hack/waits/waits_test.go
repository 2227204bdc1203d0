// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const end = " must be a multiple of deadline.Wait(), or give a reason: // not a deadline: ..."
	tests := map[string]struct {
		source string
		want   []string
	}{
		"a duration that is written down": {"ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)", []string{"a.go:4: the wait of context.WithTimeout" + end}},
		"a constant of the package":       {"<-time.After(2 * limit)", []string{"a.go:4: the wait of time.After" + end}},
		"a constant of the function":      {"const most = time.Minute; <-time.After(most)", []string{"a.go:4: the wait of time.After" + end}},
		"a poll":                          {"err := wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, f)", []string{"a.go:4: the wait of wait.PollUntilContextTimeout" + end}},
		"a file":                          {"f.SetReadDeadline(time.Now().Add(time.Minute))", []string{"a.go:4: the wait of f.SetReadDeadline" + end}},
		"the timeout of an Env":           {"e.Timeout = time.Minute", []string{"a.go:4: Timeout" + end}},
		"a multiple":                      {"<-time.After(3 * deadline.Wait())", nil},
		"a variable that is one":          {"<-time.After(long)", nil},
		"of a struct":                     {"ctx, cancel := context.WithTimeout(ctx, e.Timeout)", nil},
		"a pause below a second":          {"<-time.After(50 * time.Millisecond)", nil},
		"with a reason":                   {"<-time.After(time.Minute) // not a deadline: the product promises it", nil},
		"a time of a test's object":       {"pv.Created = time.Now().Add(-time.Minute)", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := "package a\n\nfunc f() {\n" + test.source + "\n}\n"
			got, err := Check([]File{
				{"a.go", []byte(source)},
				{"b.go", []byte("package a\n\nconst limit = 60 * time.Second\n\nvar long = 5 * deadline.Wait()\n")},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("breaches (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRepository checks all of test/ but the benchmarks, which measure, and the unit tests
// but those of packages that use testing/synctest, whose time is not the machine's.
func TestRepository(t *testing.T) {
	t.Parallel()
	top := filepath.Join("..", "..")
	packages := map[string][]File{}
	for _, folder := range []string{"test", "pkg", "cmd", "hack"} {
		err := filepath.WalkDir(filepath.Join(top, folder), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") {
				return err
			}
			relative, err := filepath.Rel(top, name)
			if err != nil {
				return err
			}
			relative = filepath.ToSlash(relative)
			test := strings.HasSuffix(relative, "_test.go")
			if !test && (!strings.HasPrefix(relative, "test/") || strings.HasPrefix(relative, "test/perf/")) || ownModule(relative) {
				return nil
			}
			source, err := os.ReadFile(name)
			packages[filepath.Dir(relative)] = append(packages[filepath.Dir(relative)], File{relative, source})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(packages["test/integration/fixture"]) == 0 || len(packages["pkg/scheduling/extender"]) == 0 {
		t.Fatal("the walk missed packages")
	}
	for path, files := range packages {
		if !strings.HasPrefix(path, "test/") && synthetic(files) {
			continue
		}
		breaches, err := Check(files)
		if err != nil {
			t.Error(err)
		}
		for _, breach := range breaches {
			t.Error(breach)
		}
	}
}

// ownModule reports whether the file is of a module that cannot import test/deadline.
func ownModule(name string) bool {
	for _, module := range []string{"hack/controlplane/", "hack/release/", "hack/monitoring/", "hack/tools/"} {
		if strings.HasPrefix(name, module) {
			return true
		}
	}
	return name == "hack/waits/waits_test.go"
}

func synthetic(files []File) bool {
	for _, f := range files {
		if bytes.Contains(f.Source, []byte(`"testing/synctest"`)) {
			return true
		}
	}
	return false
}
