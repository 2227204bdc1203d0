// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Answers of smartctl, composed after its documentation.
const (
	ataAnswer = `{"smartctl":{"exit_status":%d},"smart_status":{"passed":%t},"ata_smart_attributes":{"table":[
		{"id":5,"name":"Reallocated_Sector_Ct","value":100,"raw":{"value":4295032840,"string":"8 (1 65544)"}},
		{"id":194,"name":"Temperature_Celsius","raw":{"value":30,"string":"30 (Min/Max 20/41)"}},
		{"id":197,"name":"%s","raw":{"value":%[4]d,"string":"%[4]d"}},
		{"id":198,"name":"Offline_Uncorrectable","raw":{"value":2,"string":"2"}}]}}`
	scsiAnswer = `{"smartctl":{"exit_status":%d},"smart_status":%s,"scsi_grown_defect_list":3,"scsi_percentage_used_endurance_indicator":%d,
		"scsi_error_counter_log":{"read":{"total_uncorrected_errors":4},"write":{"total_uncorrected_errors":5}}}`
	noAnswer      = `{"smartctl":{"messages":[{"string":"/dev/sda: Unable to detect device type","severity":"error"}],"exit_status":1}}`
	standbyAnswer = `{"smartctl":{"messages":[{"string":"Device is in STANDBY mode, exit(2)","severity":"information"}],"exit_status":2},"device":{"type":"sat"}}`
)

// TestSmartReport reads answers of smartctl. Signs with a counter are shown with its value.
func TestSmartReport(t *testing.T) {
	t.Parallel()
	ata := func(status int, passed bool, pending int) string {
		return fmt.Sprintf(ataAnswer, status, passed, "Current_Pending_Sector", pending)
	}
	scsi := func(status int, passed string, used int) string { return fmt.Sprintf(scsiAnswer, status, passed, used) }
	sense := func(asc, ascq int) string {
		return fmt.Sprintf(`{"passed":false,"scsi":{"asc":%d,"ascq":%d,"ie_string":"text"}}`, asc, ascq)
	}
	const healthy = `{"passed":true}`
	ataCounters := []string{"DriveWarning ata reallocated 8", "DriveWarning ata uncorrectable 2"}
	scsiCounters := []string{"DriveWarning scsi defects 3", "DiskErrors scsi read 4", "DiskErrors scsi write 5"}
	for name, test := range map[string]struct {
		answer      string
		want        []string
		unsupported bool
		err         bool
	}{
		"a healthy ATA drive":                          {answer: ata(0, true, 0), want: ataCounters},
		"an ATA drive that is failing":                 {answer: ata(8|16, false, 0), want: slices.Concat([]string{"DriveFailing", "DriveWarning"}, ataCounters)},
		"an attribute at its threshold":                {answer: ata(16, true, 0), want: slices.Concat([]string{"DriveWarning"}, ataCounters)},
		"an attribute that was, and errors in the log": {answer: ata(32|64|128, true, 0), want: ataCounters},
		"pending sectors":                              {answer: ata(0, true, 8), want: slices.Concat([]string{"DriveWarning"}, ataCounters)},
		"a failed command for another log":             {answer: ata(4, true, 0), want: ataCounters},
		"an attribute of another meaning":              {answer: fmt.Sprintf(ataAnswer, 0, true, "Current_Pending_ECC_Cnt", 1), want: ataCounters},
		"a healthy SAS drive":                          {answer: scsi(0, healthy, 3), want: scsiCounters},
		"a SAS drive that is failing":                  {answer: scsi(8, sense(0x5d, 0x10), 3), want: slices.Concat([]string{"DriveFailing"}, scsiCounters)},
		"a SAS drive that tests its report":            {answer: scsi(8, sense(0x5d, 0xff), 3), want: scsiCounters},
		"a SAS drive that is hot":                      {answer: scsi(8, sense(0x0b, 0x01), 3), want: scsiCounters},
		"a SAS drive that found an error in a scan":    {answer: scsi(8, sense(0x0b, 0x05), 3), want: slices.Concat([]string{"DriveWarning"}, scsiCounters)},
		"a SAS drive that is worn":                     {answer: scsi(0, healthy, 100), want: slices.Concat(scsiCounters, []string{"DriveWarning"})},
		"a worn drive, since smartctl 7.4": {
			answer: `{"smartctl":{"exit_status":0},"smart_status":{"passed":true},"endurance_used":{"current_percent":101}}`, want: []string{"DriveWarning"},
		},
		"a status only in the exit status": {answer: `{"smartctl":{"exit_status":8}}`, want: []string{"DriveFailing"}, unsupported: true},
		"a device that has no report":      {answer: noAnswer, unsupported: true},
		"a drive in standby":               {answer: standbyAnswer},
		"no answer":                        {answer: "", err: true},
		"not JSON":                         {answer: "smartctl 7.3 2022-02-28\n", err: true},
		"JSON of another program":          {answer: `{"exit_status":0}`, err: true},
		"a value of another type":          {answer: `{"smartctl":{"exit_status":0},"scsi_grown_defect_list":-1}`, err: true},
		"a part of the answer":             {answer: ata(0, true, 0)[:200], err: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := parseSmartReport([]byte(test.answer))
			if test.err || err != nil {
				if !test.err || err == nil {
					t.Errorf("error %v, want one: %t", err, test.err)
				}
				return
			}
			var got []string
			for _, sign := range report.signs("naa.5") {
				text := string(sign.Reason)
				if counter, known := strings.CutSuffix(sign.Counter, " naa.5"); known {
					text += fmt.Sprintf(" %s %d", counter, sign.Value)
				}
				if got = append(got, text); sign.Lifetime != (sign.Counter != "") || sign.Message == "" {
					t.Errorf("sign %+v", sign)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if report.unsupported() != test.unsupported {
				t.Errorf("unsupported: %t, want %t", report.unsupported(), test.unsupported)
			}
		})
	}
}

// fakeSmartctl is what this program does under the name smartctl: it appends its arguments to the
// file "runs" beside it, waits until the pipe "wait" is opened if there is one, and prints the file "answer".
func fakeSmartctl() {
	folder := filepath.Dir(os.Args[0])
	runs, err := os.OpenFile(filepath.Join(folder, "runs"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(runs, strings.Join(os.Args[1:], " "), strings.Join(os.Environ(), " "))
	if wait, err := os.Open(filepath.Join(folder, "wait")); err == nil {
		_ = wait.Close()
	}
	answer, err := os.Open(filepath.Join(folder, "answer"))
	if err != nil {
		panic(err)
	}
	_, _ = io.Copy(os.Stdout, answer)
	os.Exit(2)
}

// newFake returns a smartctl that prints an answer.
func newFake(t *testing.T, answer string) smartctl {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := newSmartctl()
	s.path, s.starts, s.timeout = filepath.Join(t.TempDir(), "smartctl"), smartctlStarts, longTime
	if err := os.Symlink(self, s.path); err != nil {
		t.Fatal(err)
	}
	write(t, s.beside("answer"), answer)
	return s
}

func (s *smartctl) beside(name string) string { return filepath.Join(filepath.Dir(s.path), name) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// settle waits until the runs in progress have ended.
func (s *smartctl) settle() {
	for _, run := range s.runs {
		if run.answer != nil {
			run.answer <- <-run.answer
		}
	}
}

// ran returns how often the program was started.
func (s *smartctl) ran(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(s.beside("runs"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

func driveTarget(identity disk.Identity, names ...string) *target {
	at := &target{HealthTarget: disk.HealthTarget{Identity: identity, Probe: true}}
	for _, name := range names {
		at.devices = append(at.devices, device{Device: "/none", name: name, path: "/dev/" + name})
	}
	return at
}

// TestSmartctl runs a program instead of smartctl at 0, five seconds, ten minutes and a day.
func TestSmartctl(t *testing.T) {
	t.Parallel()
	failing := fmt.Sprintf(ataAnswer, 8, false, "Current_Pending_Sector", 0)
	for name, test := range map[string]struct {
		answer  string
		target  *target
		timeout time.Duration
		want    disk.Reason // the first
		runs    [4]int
	}{
		"a drive that reports":                {answer: failing, target: driveTarget("a", "sda"), want: disk.DriveFailing, runs: [4]int{1, 1, 2, 3}},
		"a drive in standby":                  {answer: standbyAnswer, target: driveTarget("a", "sda"), runs: [4]int{1, 1, 2, 3}},
		"a drive that reports nothing":        {answer: noAnswer, target: driveTarget("a", "sda"), runs: [4]int{1, 1, 1, 2}},
		"two drives":                          {answer: failing, target: driveTarget("a", "sda", "sdb"), want: disk.DriveFailing, runs: [4]int{2, 2, 4, 6}},
		"other devices":                       {answer: failing, target: driveTarget("a", "vda", "nvme0n1", "loop0", "dm-1")},
		"an answer that is no JSON":           {answer: "garbage", target: driveTarget("a", "sda"), runs: [4]int{1, 1, 2, 3}},
		"an answer that is too long":          {answer: strings.Repeat(" ", 2*smartctlBytes) + failing, target: driveTarget("a", "sda"), runs: [4]int{1, 1, 2, 3}},
		"an answer that is as long as may be": {answer: strings.Repeat(" ", smartctlBytes-len(failing)) + failing, target: driveTarget("a", "sda"), want: disk.DriveFailing, runs: [4]int{1, 1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFake(t, test.answer)
			start := time.Now()
			for i, at := range []time.Duration{0, 5 * time.Second, smartPeriod + 10*time.Second, unsupportedPeriod + smartPeriod} {
				signs := s.signs(test.target, start.Add(at))
				s.starts = smartctlStarts
				s.settle()
				if got := s.ran(t); got != test.runs[i] {
					t.Errorf("after %s it was run %d times, want %d", at, got, test.runs[i])
				}
				if i != 1 { // the answer is taken in the next pass
					continue
				}
				var first disk.Reason
				if len(signs) > 0 {
					first = signs[0].Reason
				}
				if first != test.want {
					t.Errorf("signs %v, want %q", signs, test.want)
				}
			}
		})
	}
}

// TestSmartctlCommand: nothing of the provisioner's environment reaches the program, and its
// arguments are these.
func TestSmartctlCommand(t *testing.T) {
	t.Parallel()
	s := newFake(t, standbyAnswer)
	s.signs(driveTarget("a", "sda"), time.Now())
	s.settle()
	got, err := os.ReadFile(s.beside("runs"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "--json=c --nocheck=standby --health --attributes --log=error --log=ssd /dev/sda LC_ALL=C\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSmartctlHangs: a program that does not end is not started again for its disk, does not delay
// others, and its disk is not said to hang.
func TestSmartctlHangs(t *testing.T) {
	t.Parallel()
	hangs, now := newFake(t, standbyAnswer), time.Now()
	if err := unix.Mkfifo(hangs.beside("wait"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangs.signs(driveTarget("a", "sda"), now)
	path := hangs.path
	answers := newFake(t, fmt.Sprintf(ataAnswer, 8, false, "Current_Pending_Sector", 0))
	hangs.path = answers.path
	hangs.signs(driveTarget("b", "sdb"), now)
	other := hangs.runs["b"]
	other.answer <- <-other.answer
	if signs := hangs.signs(driveTarget("b", "sdb"), now); len(signs) == 0 {
		t.Error("the other disk has no signs")
	}
	hangs.path = path
	for range 3 {
		now = now.Add(time.Hour)
		if signs := hangs.signs(driveTarget("a", "sda"), now); len(signs) > 0 {
			t.Errorf("signs of a disk that was not read: %v", signs)
		}
	}
	end, err := os.OpenFile(hangs.beside("wait"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	hangs.settle()
	if got := hangs.ran(t); got != 1 {
		t.Errorf("it was run %d times while it did not end", got)
	}
}

// TestSmartctlTimeout ends a program that does not end.
func TestSmartctlTimeout(t *testing.T) {
	t.Parallel()
	s := newFake(t, standbyAnswer)
	if err := unix.Mkfifo(s.beside("wait"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.timeout = time.Second
	at := driveTarget("a", "sda")
	s.signs(at, time.Now())
	s.settle()
	if signs := s.signs(at, time.Now()); len(signs) > 0 || s.runs["a"].answer != nil {
		t.Errorf("signs %v; runs again: %t", signs, s.runs["a"].answer != nil)
	}
}

// TestSmartctlStarts: the disks of a node are not all read in one pass.
func TestSmartctlStarts(t *testing.T) {
	t.Parallel()
	s := newFake(t, standbyAnswer)
	for pass := 1; pass <= 3; pass++ {
		s.starts = smartctlStarts
		for i := range 10 {
			s.signs(driveTarget(disk.Identity(fmt.Sprint(i)), "sda"), time.Now())
		}
		s.settle()
		if got, want := s.ran(t), min(pass*smartctlStarts, 10); got != want {
			t.Errorf("after %d passes %d disks were read, want %d", pass, got, want)
		}
	}
}

// TestReadsDrives: the signs of a drive are among those of its disk, and nothing is kept of a disk
// that is not watched.
func TestReadsDrives(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	drive := filepath.Join(folder, "devices/sda")
	for _, name := range []string{filepath.Join(drive, "device"), filepath.Join(folder, "dev/block"), filepath.Join(folder, "nodes")} {
		if err := os.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(drive, filepath.Join(folder, "dev/block/8:0")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(drive, "device/wwid"), "naa.5000\n")
	r := New(folder, filepath.Join(folder, "nodes"), "/proc/self/mountinfo")
	r.drives = newFake(t, fmt.Sprintf(ataAnswer, 8, false, "Current_Pending_Sector", 0))
	read := func(targets ...disk.HealthTarget) []disk.Sign {
		t.Helper()
		signs, err := r.ReadHealth(targets, longTime)
		if err != nil {
			t.Fatal(err)
		}
		settle(r)
		r.drives.settle()
		return signs["a"]
	}
	watched := disk.HealthTarget{Identity: "a", Places: []string{"dev:8:0"}, Probe: true}
	cleaned := disk.HealthTarget{Identity: "a", Places: []string{"dev:8:0"}}
	read(cleaned)
	if got := r.drives.ran(t); got != 0 {
		t.Errorf("a disk that is cleaned was read %d times", got)
	}
	read(watched)
	signs := read(watched)
	if want := []disk.Reason{disk.DriveFailing, disk.DriveWarning, disk.DriveWarning}; !slices.Equal(shown(signs), want) {
		t.Fatalf("signs %v, want %v", signs, want)
	}
	if want := "ata reallocated naa.5000"; signs[1].Counter != want {
		t.Errorf("counter %q, want %q", signs[1].Counter, want)
	}
	if read(); len(r.drives.runs) > 0 {
		t.Errorf("kept: %v", r.drives.runs)
	}
}

// TestRealSmartctl reads a loop device, which has no report.
func TestRealSmartctl(t *testing.T) {
	l := newLab(t)
	path, err := exec.LookPath("smartctl")
	if err != nil {
		t.Skip("needs smartctl")
	}
	l.attach(l.folder, "16M")
	d := device{Device: "/none", path: l.device}
	report, err := d.runSmartctl(path, longTime)
	if err != nil {
		t.Fatal(err)
	}
	if signs := report.signs(""); len(signs) > 0 || !report.unsupported() {
		t.Errorf("signs %v, unsupported: %t", signs, report.unsupported())
	}
}
