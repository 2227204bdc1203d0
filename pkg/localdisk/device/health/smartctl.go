// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"stowage.dev/stowage/pkg/localdisk/device/command"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	// smartctlTimeout is how long smartctl may run for a disk. It waits up to a minute for a command.
	smartctlTimeout = 2 * time.Minute
	// smartctlBytes is how much smartctl may print.
	smartctlBytes = 1 << 20
	// smartctlStarts is how often smartctl is started in a pass, so that not all disks are read at once.
	smartctlStarts = 4
	// unsupportedPeriod is the time between two reads of a disk that reports nothing about itself.
	unsupportedPeriod = 24 * time.Hour
)

// smartctl reads with the program of that name (smartmontools) what ATA and SAS drives report about
// themselves. Each disk is read in its own goroutine, by one process at a time.
type smartctl struct {
	path    string // empty if the program is not installed
	timeout time.Duration
	runs    map[disk.Identity]*smartctlRun
	starts  int // how often it may still be started in this pass
}

// smartctlRun is the last run for a disk.
type smartctlRun struct {
	started time.Time
	period  time.Duration    // from then to the next run
	answer  chan smartAnswer // nil unless the program runs, or its answer was not taken
}

func (r *smartctlRun) ended() bool { return r.answer == nil || len(r.answer) > 0 }

// smartAnswer is what the drives of a disk reported.
type smartAnswer struct {
	signs []disk.Sign
	// period is the time from this read to the next.
	period time.Duration
}

func newSmartctl() smartctl {
	path, _ := exec.LookPath("smartctl")
	return smartctl{path: path, timeout: smartctlTimeout, runs: map[disk.Identity]*smartctlRun{}}
}

// signs returns what the drives of a disk have reported since the last call, and starts another run
// if one is due.
func (s *smartctl) signs(t *target, now time.Time) []disk.Sign {
	var drives []device
	for _, d := range t.devices {
		if strings.HasPrefix(d.name, "sd") && d.part == "" {
			drives = append(drives, d)
		}
	}
	if s.path == "" || len(drives) == 0 {
		return nil
	}
	run := s.runs[t.Identity]
	if run == nil {
		run = &smartctlRun{}
		s.runs[t.Identity] = run
	}
	var signs []disk.Sign
	if len(run.answer) > 0 {
		answer := <-run.answer
		signs, run.period, run.answer = answer.signs, answer.period, nil
	}
	if t.Probe && run.answer == nil && now.Sub(run.started) >= run.period && s.starts > 0 {
		s.starts--
		answer, path, timeout := make(chan smartAnswer, 1), s.path, s.timeout
		run.started, run.answer = now, answer
		go func() { answer <- readDrives(path, drives, timeout) }()
	}
	return signs
}

// readDrives reads drives one after another.
func readDrives(path string, drives []device, timeout time.Duration) smartAnswer {
	answer := smartAnswer{period: unsupportedPeriod}
	for _, d := range drives {
		report, err := d.runSmartctl(path, timeout)
		if err != nil || !report.unsupported() {
			answer.period = smartPeriod
		}
		if err == nil {
			name, _ := d.Attribute("device/wwid")
			answer.signs = append(answer.signs, report.signs(strings.TrimSpace(name))...)
		}
	}
	return answer
}

// runSmartctl runs the program on a device. A drive that is in standby is not started.
func (d *device) runSmartctl(path string, timeout time.Duration) (*smartReport, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	before := d.diskseq()
	var out limited
	cmd := exec.Command(path, "--json=c", "--nocheck=standby", "--health", "--attributes", "--log=error", "--log=ssd", d.path)
	cmd.Env, cmd.Stdout = []string{"LC_ALL=C"}, &out
	// The exit status is not 0 if something was found, or if the drive lacks something.
	if err := command.Run(ctx, cmd); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return nil, err
	}
	switch {
	case out.exceeded:
		return nil, fmt.Errorf("smartctl printed more than %d bytes", smartctlBytes)
	case d.diskseq() != before:
		return nil, fmt.Errorf("%s is another disk now", d.path)
	}
	return parseSmartReport(out.text)
}

// limited stores what is written to it, up to smartctlBytes, and fails if there is more.
type limited struct {
	text     []byte
	exceeded bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.exceeded = len(l.text)+len(p) > smartctlBytes; l.exceeded {
		return 0, errors.New("too much output")
	}
	l.text = append(l.text, p...)
	return len(p), nil
}

// The bits of the exit status of smartctl that are used: smartctl(8), "EXIT STATUS".
const (
	cannotOpen    = 1 << 1 // or the drive is in standby
	statusFailing = 1 << 3
	belowThresh   = 1 << 4
)

// smartReport is what smartctl prints about a drive.
type smartReport struct {
	Smartctl *struct {
		ExitStatus int `json:"exit_status"`
	} `json:"smartctl"`
	Status *struct {
		Passed bool `json:"passed"`
		SCSI   *struct {
			ASC  int    `json:"asc"`
			ASCQ int    `json:"ascq"`
			Text string `json:"ie_string"`
		} `json:"scsi"`
	} `json:"smart_status"`
	ATA struct {
		Table []smartAttribute `json:"table"`
	} `json:"ata_smart_attributes"`
	Errors struct {
		Read   scsiErrors `json:"read"`
		Write  scsiErrors `json:"write"`
		Verify scsiErrors `json:"verify"`
	} `json:"scsi_error_counter_log"`
	GrownDefects *uint64 `json:"scsi_grown_defect_list"`
	// SCSIUsed is a percentage, Endurance that of smartctl from 7.4 on.
	SCSIUsed  *int `json:"scsi_percentage_used_endurance_indicator"`
	Endurance struct {
		Used *int `json:"current_percent"`
	} `json:"endurance_used"`
}

type scsiErrors struct {
	Uncorrected *uint64 `json:"total_uncorrected_errors"`
}

// smartAttribute is an attribute of an ATA drive. What a number and its value mean is the vendor's
// choice; smartctl names those that it knows.
type smartAttribute struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
	Raw  struct {
		// Text begins with the value as smartctl interprets it: other bits of it may have other uses.
		Text string `json:"string"`
	} `json:"raw"`
}

// value returns the value of an attribute that has a number and, as part of its name, a text.
func (r *smartReport) value(id int, name string) (n uint64, found bool) {
	for _, a := range r.ATA.Table {
		if a.ID == id && strings.Contains(a.Name, name) {
			_, err := fmt.Sscan(a.Raw.Text, &n)
			return n, err == nil
		}
	}
	return 0, false
}

// parseSmartReport parses what smartctl printed.
func parseSmartReport(text []byte) (*smartReport, error) {
	report := &smartReport{}
	if err := json.Unmarshal(text, report); err != nil {
		return nil, fmt.Errorf("parse what smartctl printed: %w", err)
	}
	if report.Smartctl == nil {
		return nil, errors.New("smartctl printed no status")
	}
	return report, nil
}

// unsupported reports whether a drive reports nothing about itself, and is not in standby.
func (r *smartReport) unsupported() bool {
	return r.Smartctl.ExitStatus&cannotOpen == 0 && r.Status == nil && len(r.ATA.Table) == 0 && r.GrownDefects == nil &&
		r.uncorrected() == [3]*uint64{} && r.used() == 0
}

// uncorrected returns the counters of read, write and verify errors that a SCSI drive could not correct.
func (r *smartReport) uncorrected() [3]*uint64 {
	return [3]*uint64{r.Errors.Read.Uncorrected, r.Errors.Write.Uncorrected, r.Errors.Verify.Uncorrected}
}

// used returns how much of its rated endurance a drive has used, in percent; 0 if it is unknown.
func (r *smartReport) used() int {
	for _, used := range []*int{r.SCSIUsed, r.Endurance.Used} {
		if used != nil {
			return *used
		}
	}
	return 0
}

// signs returns what the drive of a name reports about itself: docs/health.md, "ATA and SAS drives".
// Sectors do not count as errors: one bad place on a disk has several.
func (r *smartReport) signs(name string) []disk.Sign {
	signs := r.status()
	add := func(reason disk.Reason, format string, args ...any) {
		signs = append(signs, disk.Sign{Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	rising := func(reason disk.Reason, counter string, value uint64, message string) {
		signs = append(signs, disk.Sign{Reason: reason, Message: message, Counter: counter + " " + name, Value: value, Lifetime: true})
	}
	if r.Smartctl.ExitStatus&belowThresh != 0 {
		add(disk.DriveWarning, "an attribute by which the drive predicts failure has reached its threshold")
	}
	if n, ok := r.value(197, "Pending_Sector"); ok && n > 0 {
		add(disk.DriveWarning, "the drive has %d sectors that it could not read", n)
	}
	if n, ok := r.value(5, "Realloc"); ok {
		rising(disk.DriveWarning, "ata reallocated", n, fmt.Sprintf("the drive replaced sectors, %d so far", n))
	}
	if n, ok := r.value(198, "Uncorrectab"); ok {
		rising(disk.DriveWarning, "ata uncorrectable", n, fmt.Sprintf("the drive found sectors that it cannot read, %d so far", n))
	}
	if r.GrownDefects != nil {
		rising(disk.DriveWarning, "scsi defects", *r.GrownDefects, fmt.Sprintf("the drive replaced defective sectors, %d so far", *r.GrownDefects))
	}
	for i, n := range r.uncorrected() {
		if n != nil {
			kind := []string{"read", "write", "verify"}[i]
			rising(disk.DiskErrors, "scsi "+kind, *n, "the drive counted "+kind+" errors that it could not correct")
		}
	}
	if used := r.used(); used >= 100 {
		add(disk.DriveWarning, "the drive has reached %d%% of its rated endurance", used)
	}
	return signs
}

// The additional sense codes of SCSI by which a drive reports its status.
const (
	senseWarning = 0x0b
	// Those from mediaWarning to cacheWarning are about the media and the write cache, the others about
	// temperature, humidity, enclosure and power, which pass.
	mediaWarning = 0x03
	cacheWarning = 0x07
	senseFailure = 0x5d
	failureTest  = 0xff // a test of the report
)

// status returns a sign if the drive does not report that it is healthy.
func (r *smartReport) status() []disk.Sign {
	failing := []disk.Sign{{Reason: disk.DriveFailing, Message: "the drive reports that it is failing"}}
	switch s := r.Status; {
	case s == nil && r.Smartctl.ExitStatus&statusFailing == 0, s != nil && s.Passed:
		return nil
	case s == nil || s.SCSI == nil:
		return failing
	case s.SCSI.ASC == senseFailure && s.SCSI.ASCQ == failureTest:
		return nil
	case s.SCSI.ASC == senseWarning && (s.SCSI.ASCQ < mediaWarning || s.SCSI.ASCQ > cacheWarning):
		return nil
	case s.SCSI.ASC == senseWarning:
		return []disk.Sign{{Reason: disk.DriveWarning, Message: "the drive reports: " + s.SCSI.Text}}
	default:
		failing[0].Message += ": " + s.SCSI.Text
		return failing
	}
}
