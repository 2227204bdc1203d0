// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFactor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		value string
		want  float64
	}{
		"unset leaves waits as they are": {"", 1},
		"a whole number":                 {"4", 4},
		"a fraction":                     {"1.5", 1.5},
		"the largest":                    {"100", 100},
		"waits are never shortened":      {"0.5", 0},
		"zero":                           {"0", 0},
		"too large":                      {"101", 0},
		"negative":                       {"-4", 0},
		"no number":                      {"nan", 0},
		"a word":                         {"yes", 0},
		"a duration":                     {"4m", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Factor(test.value)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("factor (-want +got):\n%s", diff)
			}
			if refused := test.want == 0; refused != (err != nil) {
				t.Errorf("error %v, want one: %t", err, refused)
			}
		})
	}
}

// TestProcess runs this test binary with values of the variable.
func TestProcess(t *testing.T) {
	t.Parallel()
	if os.Getenv("DEADLINE_TEST_PRINT") != "" {
		_, _ = os.Stdout.WriteString("wait " + Wait().String() + "\n")
		return
	}
	for name, test := range map[string]struct {
		value, want string
		code        int
	}{
		"stretched":                    {"4", "wait 4m0s\n", 0},
		"one line, and no test is run": {"fast", Variable + "=\"fast\": must be a number from 1 to 100, by which all waits of tests are multiplied\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := Context(t.Context())
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestProcess$")
			cmd.Env = append(os.Environ(), Variable+"="+test.value, "DEADLINE_TEST_PRINT=1")
			out, _ := cmd.CombinedOutput() // the code is compared
			got, _, _ := strings.Cut(string(out), "PASS\n")
			if diff := cmp.Diff(test.want, got); diff != "" || cmd.ProcessState.ExitCode() != test.code {
				t.Errorf("exit %d, want %d; output (-want +got):\n%s", cmd.ProcessState.ExitCode(), test.code, diff)
			}
		})
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := Context(t.Context())
	defer cancel()
	end, ok := ctx.Deadline()
	if left := time.Until(end); !ok || left > Wait() {
		t.Errorf("the context ends in %v, want at most %v", left, Wait())
	}
}
