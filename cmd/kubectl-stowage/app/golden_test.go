// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the files that have the expected output")

// golden runs the plugin with arguments in a terminal of 80 and of 160 columns, and compares what it prints with
// testdata/NAME.80.txt and testdata/NAME.160.txt. go test -update writes these files.
func golden(t *testing.T, name string, args ...string) {
	t.Helper()
	shown := args
	if i := slices.Index(args, "--from"); i >= 0 {
		shown = slices.Concat(args[:i], args[i+2:])
	}
	t.Setenv("KUBECONFIG", os.DevNull)
	for variable, value := range map[string]string{"LC_ALL": "C", "NO_COLOR": "1"} {
		t.Setenv(variable, value)
	}
	for _, columns := range []int{80, 160} {
		t.Setenv("COLUMNS", strconv.Itoa(columns))
		var out bytes.Buffer
		fmt.Fprintln(&out, "$ kubectl stowage", strings.Join(shown, " "))
		if code := Main(args, strings.NewReader(""), &out, &out); code != 0 {
			fmt.Fprintf(&out, "exit code %d\n", code)
		}
		file := filepath.Join("testdata", fmt.Sprintf("%s.%d.txt", name, columns))
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}
