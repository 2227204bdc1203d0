// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/test/deadline"

	"stowage.dev/stowage/pkg/localdisk/device/command"
)

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestRun(t *testing.T) {
	tests := map[string]struct {
		command []string
		// want is in the error; empty wants none.
		want string
	}{
		"it empties the volume":             {command: sh(`rm "$LOCAL_PV_FILESYSTEM/file"`)},
		"it gets arguments":                 {command: []string{"/bin/sh", "-c", `rm "$LOCAL_PV_FILESYSTEM/$1"`, "sh", "file"}},
		"it is not in the volume":           {command: sh(`rm "$LOCAL_PV_FILESYSTEM/file"; pwd; exit 1`), want: "output: /"},
		"it leaves something":               {command: sh(`true`), want: "the command left file in"},
		"it fails with output":              {command: sh(`echo no good >&2; exit 3`), want: "exit status 3; output: no good"},
		"it fails without output":           {command: sh(`exit 3`), want: "exit status 3"},
		"it prints a lot":                   {command: sh(`head -c 1000000 /dev/zero | tr '\0' x; echo the end; exit 1`), want: "xthe end"},
		"its output is not text":            {command: sh(`printf '\377\376'; exit 1`), want: "output: ?"},
		"it is killed":                      {command: sh(`kill -9 $$`), want: "signal: killed"},
		"it does not exist":                 {command: []string{"/nowhere/at/all"}, want: "no such file"},
		"it is a relative path":             {command: []string{"rm"}, want: "not an absolute path"},
		"it is a method of the provisioner": {command: []string{"fs-reset"}, want: "not an absolute path"},
		"there is none":                     {want: "not an absolute path"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir+"/file", "x")
			err := open(t, dir).Run(t.Context(), test.command)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %.200v, want %q in it", err, test.want)
			case err != nil && len(err.Error()) > command.OutputBytes+500:
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// A child of the command holds a FIFO open: its reader gets EOF when the child has ended.
const child = `sh -c 'exec 9>"$0"; echo up >&9; sleep 600' "%s" & `

func TestRunKillsTheProcessGroup(t *testing.T) {
	tests := map[string]struct {
		then string
		// cancelled ends the context once the child has started.
		cancelled bool
	}{
		"it exits, and leaves a child":    {then: `read x <"%s.go"`},
		"the context ends while it waits": {then: "wait", cancelled: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fifo := t.TempDir() + "/fifo"
			must(t, unix.Mkfifo(fifo, 0o600))
			must(t, unix.Mkfifo(fifo+".go", 0o600))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			script := strings.ReplaceAll(child+test.then, "%s", fifo)
			root := open(t, t.TempDir())
			go func() { done <- root.Run(ctx, sh(script)) }()

			reader, err := os.OpenFile(fifo, os.O_RDONLY, 0)
			must(t, err)
			defer reader.Close()
			up := make([]byte, 3)
			_, err = reader.Read(up)
			must(t, err)
			if test.cancelled {
				cancel()
			} else {
				write(t, fifo+".go", "go\n")
			}
			must(t, reader.SetReadDeadline(time.Now().Add(deadline.Wait())))
			if n, err := reader.Read(up); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the child is there: %d, %v", n, err)
			}
			err = <-done
			if test.cancelled != errors.Is(err, context.Canceled) || !test.cancelled && err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

func TestUnmountWhileACommandRuns(t *testing.T) {
	root := mount(t, "tmpfs")
	r := open(t, root)
	err := r.Run(t.Context(), sh(`umount "$LOCAL_PV_FILESYSTEM"`))
	if !errors.Is(err, ErrReplaced) {
		t.Errorf("Run: %v", err)
	}
}
