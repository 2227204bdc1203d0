// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/pav/report"
)

// asReporter makes the test binary the reporter.
const asReporter = "STOWAGE_TEST_REPORTER"

func TestMain(m *testing.M) {
	if os.Getenv(asReporter) != "" {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRun: the report is of what is there when the process is terminated, and a process that is
// killed leaves the message that it found, which is no report.
func TestRun(t *testing.T) {
	t.Parallel()
	whole := report.Report{Handle: new("after"), Error: "no space"}
	for name, test := range map[string]struct {
		signal  syscall.Signal
		args    []string
		message string // of an earlier process
		fill    func(*testing.T, string)
		want    report.Report
		err     error
		code    int
	}{
		"terminated": {
			signal: syscall.SIGTERM, want: whole,
			fill: func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "handle"), "after\n")
				write(t, filepath.Join(dir, "error"), "no space\n")
			},
		},
		"another message is overwritten": {signal: syscall.SIGTERM, message: strings.Repeat("x", 5000)},
		"the directory is renamed":       {signal: syscall.SIGTERM, want: report.Report{Reschedule: true}, fill: rename},
		"a large error in a small report": {
			signal: syscall.SIGTERM, args: []string{"-limit=512"},
			fill: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "error"), strings.Repeat("x", 9000)) },
			want: report.Report{Error: strings.Repeat("x", 462) + "…"},
		},
		"killed":                     {signal: syscall.SIGKILL, err: report.ErrMissing, code: -1},
		"killed, with a message cut": {signal: syscall.SIGKILL, message: "stowage-pav-report/1 00", err: report.ErrCut, code: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			dir, message := filepath.Join(folder, "pav"), filepath.Join(folder, "message")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, message, test.message)
			cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"run", "-directory=" + dir, "-message=" + message}, test.args...)...)
			cmd.Env = append(os.Environ(), asReporter+"=1")
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(stdout)
			if line, err := lines.ReadString('\n'); line != "waiting for SIGTERM\n" {
				t.Fatalf("printed %q, %v", line, err)
			}
			if test.fill != nil {
				test.fill(t, dir)
			}
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the exit code counts
			if got := cmd.ProcessState.ExitCode(); got != test.code {
				t.Errorf("exit code %d, want %d", got, test.code)
			}
			text, err := os.ReadFile(message)
			if err != nil {
				t.Fatal(err)
			}
			got, err := report.Decode(string(text))
			if !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestStarted: a hook ends when run waits, no sooner.
func TestStarted(t *testing.T) {
	t.Parallel()
	message := filepath.Join(t.TempDir(), "message")
	write(t, message, "")
	start := func(args ...string) *bufio.Reader {
		cmd := exec.CommandContext(t.Context(), os.Args[0], append(args, "-message="+message)...)
		cmd.Env = append(os.Environ(), asReporter+"=1")
		cmd.Stderr = cmd.Stdout
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return bufio.NewReader(stdout)
	}
	ended := make(chan string, 1)
	hook := start("started")
	go func() { out, _ := io.ReadAll(hook); ended <- string(out) }()
	select {
	case out := <-ended:
		t.Fatalf("the hook ended before run started, and printed %q", out)
	case <-time.After(100 * time.Millisecond): // not a deadline: a hook that does not wait ends sooner
	}
	if line, err := start("run", "-directory="+t.TempDir()).ReadString('\n'); line != "waiting for SIGTERM\n" {
		t.Fatalf("printed %q, %v", line, err)
	}
	if out := <-ended; out != "" {
		t.Errorf("the hook printed %q", out)
	}
}

// rename puts an empty directory in place of one that has a file.
func rename(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "reschedule"), "")
	if err := errors.Join(os.Rename(dir, dir+"-1"), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		entries []string // directories
		args    []string
		want    string // in stdout
	}{
		"a directory":             {entries: []string{"ready", "volume"}},
		"no volume":               {entries: []string{"ready"}, want: "/pav/volume does not exist"},
		"not ready yet":           {entries: []string{"volume"}, want: "/pav/ready does not exist"},
		"not a device":            {entries: []string{"ready", "volume"}, args: []string{"-volume-mode=Block", "-min-bytes=1"}, want: "/pav/volume: is a Directory, must be a BlockDevice"},
		"a directory has no size": {entries: []string{"ready", "volume"}, args: []string{"-min-bytes=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, entry := range test.entries {
				if err := os.Mkdir(filepath.Join(dir, entry), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			var stdout, stderr strings.Builder
			code := Main(append([]string{"ready", "-directory=" + dir}, test.args...), &stdout, &stderr)
			if got := strings.TrimSpace(stdout.String()); got != test.want || (code == 0) != (test.want == "") {
				t.Errorf("exit code %d, printed %q, want %q", code, got, test.want)
			}
		})
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	device := report.Volume{Kind: report.BlockDevice, Bytes: 10}
	for name, test := range map[string]struct {
		kind  report.Kind
		bytes int64
		want  string
	}{
		"of the size":     {kind: report.BlockDevice, bytes: 10},
		"larger":          {kind: report.BlockDevice, bytes: 9},
		"smaller":         {kind: report.BlockDevice, bytes: 11, want: "/pav/volume: has 10 bytes, must have at least 11"},
		"not a directory": {kind: report.Directory, want: "/pav/volume: is a BlockDevice, must be a Directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := device.Fits(test.kind, test.bytes); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		code int
		want string // in stderr
	}{
		"none":                   {code: 2, want: "stowage-pav-reporter run "},
		"unknown command":        {args: []string{"walk"}, code: 2, want: "stowage-pav-reporter run "},
		"help":                   {args: []string{"ready", "-help"}, want: "-volume-mode"},
		"unknown flag":           {args: []string{"run", "-colour"}, code: 2, want: "stowage-pav-reporter run: flag provided but not defined: -colour"},
		"an argument":            {args: []string{"ready", "now"}, code: 2, want: `argument "now": only flags are allowed`},
		"a limit too small":      {args: []string{"run", "-limit=10"}, code: 2, want: "-limit: limit of a report: 10 bytes, must be from 512 to 4096"},
		"an unknown volume mode": {args: []string{"ready", "-volume-mode=Object"}, code: 2, want: "-volume-mode=Object: must be Filesystem or Block"},
		"run without directory":  {args: []string{"run", "-directory=/nowhere"}, code: 1, want: "open /nowhere: no such file"},
		"run without message":    {args: []string{"run", "-directory=/", "-message=/nowhere/m"}, code: 1, want: "open the termination message: open /nowhere/m: no such file"},
		"started without one":    {args: []string{"started", "-message=/nowhere/m"}, code: 1, want: "open the termination message: open /nowhere/m: no such file"},
		"ready without one":      {args: []string{"ready", "-directory=/nowhere"}, code: 1, want: "open /nowhere: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			if code := Main(test.args, &stdout, &stderr); code != test.code || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("exit code %d, want %d; printed\n%s\nwant %q in it", code, test.code, stderr.String(), test.want)
			}
		})
	}
}
