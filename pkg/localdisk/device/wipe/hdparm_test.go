// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// fake is a folder with a hdparm that keeps a drive's state in files: password,
// frozen, expired, plain (no enhanced erase), none (no security), fail, deaf (reports an
// erase that it did not do), stuck (a pipe). An erase requires the right password, and zeroes
// the device.
type fake struct{ folder string }

func fakeTool(t *testing.T) fake {
	t.Helper()
	f := fake{t.TempDir()}
	script(t, filepath.Join(f.folder, "hdparm"), "cd "+f.folder+`
echo "$@" >> calls
for last; do :; done
is() { test -e $1 && echo "	$2" || echo "	not	$2"; }
case "$1" in
-I)
	test -e none && exit 0
	printf '\n%s:\n\nSecurity: \n\t\tsupported\n' "$last"
	is password enabled; is password locked; is frozen frozen; is expired 'expired: security count'
	test -e plain || echo '		supported: enhanced erase'
	printf 'Checksum: correct\n'
	exit 0 ;;
esac
case "$3" in
--security-set-pass) echo "$4" > password ;;
--security-erase*)
	test -e fail && { echo "SECURITY_ERASE: Input/output error" >&2; exit 5; }
	test -e deaf && exit 0
	test -e stuck && { echo erasing > stuck; exec sleep 100; }
	test "$(cat password)" = "$4" || { echo 'wrong password' >&2; exit 5; }
	dd if=/dev/zero of="$last" bs=1M count=2 conv=fsync 2>/dev/null
	rm password ;;
esac
`)
	return f
}

func (f fake) set(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// calls returns the arguments of the tool, without the device, and clears them.
func (f fake) calls(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(f.folder, "calls")
	said, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(said)) {
		words := strings.Fields(line)
		calls = append(calls, strings.Join(words[:len(words)-1], " "))
	}
	return calls
}

const recorded = "00112233445566778899aabbccddeeff"

func TestHDParm(t *testing.T) {
	erase := func(how, p string) []string {
		return []string{"-I", "--user-master u --security-set-pass " + p, "--user-master u " + how + " " + p, "-I"}
	}
	resumed := func(how string) []string {
		return []string{"-I", "--user-master u " + how + " " + recorded, "-I"}
	}
	tests := map[string]struct {
		files map[string]string
		mode  disk.Mode
		step  string
		// command is hdparm if there is none.
		command []string
		calls   []string
		want    disk.Reason
		says    string
	}{
		"a drive with enhanced erase, for a file system": {mode: disk.Filesystem, calls: erase("--security-erase-enhanced", "PASSWORD")},
		"raw blocks must be zeros: plain erase": {
			mode: disk.Block, calls: erase("--security-erase", "PASSWORD")},
		"a drive without enhanced erase": {files: map[string]string{"plain": ""}, mode: disk.Filesystem, calls: erase("--security-erase", "PASSWORD")},
		"the provisioner was killed after it recorded the password": {
			mode: disk.Block, step: securityStep + recorded, calls: erase("--security-erase", recorded)},
		"the provisioner was killed after it set the password": {
			files: map[string]string{"password": recorded}, mode: disk.Block, step: securityStep + recorded, calls: resumed("--security-erase")},
		"the provisioner was killed after the erase": {mode: disk.Block, step: erasedStep, want: disk.CleanFailed, says: "not blank"},
		"a frozen drive is not changed": {files: map[string]string{"frozen": ""}, mode: disk.Block, calls: []string{"-I"},
			want: disk.CleanFailed, says: "suspend and resume"},
		"a drive with another password": {files: map[string]string{"password": "x"}, mode: disk.Block, calls: []string{"-I"},
			want: disk.CleanFailed, says: "did not set"},
		"a drive whose security count expired": {files: map[string]string{"password": recorded, "expired": ""}, mode: disk.Block, step: securityStep + recorded,
			calls: []string{"-I"}, want: disk.CleanFailed, says: "off and on"},
		"a drive that reports an erase and did none": {files: map[string]string{"deaf": ""}, mode: disk.Block, calls: erase("--security-erase", "PASSWORD"),
			want: disk.CleanFailed, says: "did not erase itself"},
		"a drive without it": {files: map[string]string{"none": ""}, mode: disk.Block, calls: []string{"-I"},
			want: disk.CleanerMissing, says: "supports no ATA"},
		"another method was chosen while the drive was locked": {
			files: map[string]string{"password": recorded}, mode: disk.Block, step: securityStep + recorded, command: []string{"dd-zero"}, calls: resumed("--security-erase")},
		"another method was chosen before the drive was locked, and it is frozen": {
			files: map[string]string{"frozen": ""}, mode: disk.Block, step: securityStep + recorded, command: []string{"zero"}, calls: []string{"-I"}},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			dev := loop(t, dirty(t, 20*mib))
			tools := fakeTool(t)
			for file, content := range s.files {
				tools.set(t, file, content)
			}
			if s.command == nil {
				s.command = []string{"hdparm"}
			}
			var said string
			r := &run{Target: target(t, dev, s.mode, s.command...), tools: tools.folder, progress: func(p disk.Progress) error {
				if p := password(p.Step); p != "" {
					said = p
				}
				return nil
			}}
			r.Step = s.step
			if s.want == disk.CleanFailed && s.step == erasedStep {
				// Only the superblocks are zeroed: what an erase would have left.
				r.Mode = disk.Filesystem
				s.want = ""
			}
			err := r.run(t.Context())
			if reason(err) != s.want || (err != nil) != (s.want != "") {
				t.Fatalf("error %v, want %q", err, s.want)
			}
			if err != nil && !strings.Contains(err.Error(), s.says) {
				t.Errorf("error %v does not returns %q", err, s.says)
			}
			var want []string
			for _, c := range s.calls {
				want = append(want, strings.ReplaceAll(c, "PASSWORD", said))
			}
			if diff := cmp.Diff(want, tools.calls(t)); diff != "" {
				t.Errorf("calls (-want +got)\n%s", diff)
			}
		})
	}
}

func TestPasswordIsRecordedFirst(t *testing.T) {
	dev := loop(t, dirty(t, 2*mib))
	tools := fakeTool(t)
	full := errors.New("disk full")
	r := &run{Target: target(t, dev, disk.Block, "hdparm"), tools: tools.folder, progress: func(disk.Progress) error { return full }}
	if err := r.run(t.Context()); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
	if diff := cmp.Diff([]string{"-I"}, tools.calls(t)); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
}

func TestInterruptedEraseResumes(t *testing.T) {
	dev := loop(t, dirty(t, 2*mib))
	tools := fakeTool(t)
	tools.set(t, "fail", "")
	ctx, cancel := context.WithCancel(t.Context())
	step := ""
	try := func() error {
		r := &run{Target: target(t, dev, disk.Block, "hdparm"), tools: tools.folder, progress: func(p disk.Progress) error {
			step = p.Step
			return nil
		}}
		r.Step = step
		return r.run(ctx)
	}
	if err := try(); err == nil || !strings.Contains(err.Error(), "Input/output error") {
		t.Fatalf("error %v does not say what hdparm said", err)
	}
	first := password(step)

	pipe, line := fifo(t)
	for from, to := range map[string]string{pipe: "stuck", filepath.Join(tools.folder, "fail"): "failed"} {
		if err := os.Rename(from, filepath.Join(tools.folder, to)); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); line(); cancel() }()
	if err := try(); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	<-done

	if err := os.Remove(filepath.Join(tools.folder, "stuck")); err != nil {
		t.Fatal(err)
	}
	ctx = t.Context()
	if err := try(); err != nil {
		t.Fatal(err)
	}
	if first == "" || step != finishedStep {
		t.Errorf("password %q, last step %q", first, step)
	}
	again := "--user-master u --security-erase " + first
	want := []string{"-I", "--user-master u --security-set-pass " + first, again, "-I", again, "-I", again, "-I"}
	if diff := cmp.Diff(want, tools.calls(t)); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
}

func TestHDParmMissing(t *testing.T) {
	dev := loop(t, dirty(t, 2*mib))
	r := &run{Target: target(t, dev, disk.Block, "hdparm"), tools: t.TempDir()}
	err := r.run(t.Context())
	if reason(err) != disk.CleanerMissing || !strings.Contains(err.Error(), "Debian package hdparm") {
		t.Errorf("error %v", err)
	}
}

const plainDrive = `
/dev/sda:

ATA device, with non-removable media
	Model Number:       A Drive
Capabilities:
	LBA, IORDY(can be disabled)
Commands/features:
	Enabled	Supported:
	   *	SMART feature set
	    	Security Mode feature set
Security: 
	Master password revision code = 65534
		supported
	not	enabled
	not	locked
	not	frozen
	not	expired: security count
		supported: enhanced erase
	112min for SECURITY ERASE UNIT. 112min for ENHANCED SECURITY ERASE UNIT.
Logical Unit WWN Device Identifier: 50014ee0
	NAA		: 5
Checksum: correct
`

func TestParseSecurity(t *testing.T) {
	tests := map[string]struct {
		out  string
		want security
	}{
		"a drive that can erase itself": {plainDrive, security{supported: true, enhanced: true}},
		"a frozen drive with a password": {
			"Security: \n\tMaster password revision code = 65534\n\t\tsupported\n\t\tenabled\n\tnot\tlocked\n\t\tfrozen\n\tnot\texpired: security count\n\tnot\tsupported: enhanced erase\n\tSecurity level high\n",
			security{supported: true, enabled: true, frozen: true},
		},
		"a locked drive whose security count expired": {
			"Security: \n\t\tsupported\n\t\tenabled\n\t\tlocked\n\tnot\tfrozen\n\t\texpired: security count\n",
			security{supported: true, enabled: true, locked: true, expired: true},
		},
		"words of other sections are ignored": {"Capabilities:\n\tsupported\n\tfrozen\n", security{}},
		"a drive that supports none":          {"Security: \n\tnot\tsupported\n", security{}},
		"a device that is no ATA drive":       {"\n/dev/nvme0n1:\n", security{}},
		"nothing":                             {"", security{}},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			if got := parseSecurity([]byte(s.out)); got != s.want {
				t.Errorf("got %+v, want %+v", got, s.want)
			}
		})
	}
}
