// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commands runs command lines in tests.
package commands

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// Case is a command line and what it is to print or fail with, in part.
type Case struct {
	Args []string
	// Want is printed by a command that succeeds; Err is in the error of one that does not.
	// A command is to succeed if Err is empty.
	Want, Err string
}

// Run runs each case on a new command. Logging is the process's, so neither the
// cases nor the test may be parallel.
func Run(t *testing.T, command func() *cobra.Command, cases map[string]Case) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// Each command applies the logging flags, which a process may do once.
			if err := logsapi.ResetForTest(nil); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd := command()
			cmd.SetArgs(tc.Args)
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			err := cmd.ExecuteContext(t.Context())
			switch {
			case tc.Err == "" && (err != nil || !strings.Contains(out.String(), tc.Want)):
				t.Errorf("error %v, output %q; want %q", err, out.String(), tc.Want)
			case tc.Err != "" && (err == nil || !strings.Contains(err.Error(), tc.Err)):
				t.Errorf("error %v, want one with %q", err, tc.Err)
			}
		})
	}
}

// Output runs a command and returns what it prints, errors included.
func Output(t *testing.T, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}
