// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/device/command"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// hdparm is the method of that name. The tool opens the device without O_EXCL, so the run keeps
// its own exclusive descriptor meanwhile.
func (r *run) hdparm(ctx context.Context, d *device) error {
	if r.Step != erasedStep {
		if err := r.securityErase(ctx, d); err != nil {
			return err
		}
	}
	// A drive may leave its own pattern.
	return r.zeroSuperblocks(ctx, d)
}

// securityErase erases the drive: it sets a password, which the erase command requires, and
// erases, which removes the password. If an earlier run has set the password, it resumes there.
func (r *run) securityErase(ctx context.Context, d *device) error {
	tool, err := r.tool("hdparm")
	if err != nil {
		return err
	}
	drive := &drive{run: r, device: d, tool: tool, password: password(r.Step)}
	state, err := drive.identify(ctx)
	if err != nil {
		return err
	}
	if !state.enabled && r.Method.Name != HDParm {
		return nil // another method was configured since, and nothing is unfinished
	}
	if err := drive.checkErasable(state); err != nil {
		return err
	}
	if !state.enabled { // set the password, after it was recorded
		if drive.password == "" {
			random := make([]byte, passwordBytes)
			_, _ = rand.Read(random) // never fails
			drive.password = hex.EncodeToString(random)
		}
		if err := r.report(disk.Progress{Total: d.size, Step: securityStep + drive.password}); err != nil {
			return err
		}
		if _, err := drive.call(ctx, "--user-master", "u", "--security-set-pass", drive.password); err != nil {
			return err
		}
	}
	return drive.erase(ctx, state)
}

// tool finds a tool on this node.
func (r *run) tool(name string) (string, error) {
	for _, folder := range filepath.SplitList(r.tools) {
		path := filepath.Join(folder, name)
		if executable(path) == nil {
			return path, nil
		}
	}
	return "", disk.Problemf(disk.CleanerMissing,
		"the provisioner's image has no tool %s (Debian package %s); use an image that has it, or another method", name, name)
}

// drive is an ATA drive that is being erased.
type drive struct {
	run      *run
	device   *device
	tool     string
	password string
}

// identify reads the drive's state.
func (v *drive) identify(ctx context.Context) (security, error) {
	part, err := v.device.partition()
	if err == nil && part {
		err = v.cannot("is a partition, and hdparm erases whole drives")
	}
	if err != nil {
		return security{}, err
	}
	out, err := v.call(ctx, "-I")
	return parseSecurity(out), err
}

// checkErasable returns why a drive cannot be erased, or nil.
func (v *drive) checkErasable(state security) error {
	switch {
	case !state.supported:
		return v.cannot("supports no ATA secure erase")
	case state.frozen:
		return v.failed("is frozen (the firmware does that at boot): suspend and resume the node, or unplug the drive and plug it in again")
	case state.expired:
		return v.failed("has refused too many passwords: switch it off and on again")
	case state.enabled && v.password == "":
		return v.failed("has an ATA password that the provisioner did not set: remove it with hdparm --security-disable")
	default:
		return nil
	}
}

// erase erases a drive that has the password. In mode Block the result must be zeros, which only
// the plain erase guarantees.
func (v *drive) erase(ctx context.Context, state security) error {
	how := "--security-erase"
	if state.enhanced && v.run.Mode != disk.Block {
		how = "--security-erase-enhanced"
	}
	if _, err := v.call(ctx, "--user-master", "u", how, v.password); err != nil {
		return err
	}
	after, err := v.identify(ctx)
	if err != nil {
		return err
	}
	if after.enabled {
		return v.failed("did not erase itself: its ATA password is still set")
	}
	v.run.Step = ""
	return v.run.report(disk.Progress{Done: v.device.size, Total: v.device.size, Step: erasedStep})
}

// call runs the tool on the drive, and returns what it printed.
func (v *drive) call(ctx context.Context, args ...string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd := exec.Command(v.tool, append(args, v.run.Device)...)
	cmd.Env = []string{"PATH=" + toolPath, "LC_ALL=C"}
	cmd.Stdout = &out
	if err := command.Run(ctx, cmd); err != nil {
		return nil, fmt.Errorf("hdparm %s: %w", args[0], err)
	}
	return out.Bytes(), nil
}

func (v *drive) cannot(why string) error {
	return disk.Problemf(disk.CleanerMissing, "%s %s; use another method in this class", v.run.Device, why)
}

func (v *drive) failed(why string) error {
	return disk.Problemf(disk.CleanFailed, "%s %s", v.run.Device, why)
}

// security is a drive's ATA security state, as hdparm -I prints it.
type security struct {
	supported, enabled, locked, frozen, expired bool
	// enhanced reports whether the drive can erase with its own pattern, including reallocated
	// sectors.
	enhanced bool
}

// parseSecurity reads the section "Security" of what hdparm -I prints. A drive
// without one supports nothing.
func parseSecurity(out []byte) security {
	var s security
	fields := map[string]*bool{
		"supported": &s.supported, "enabled": &s.enabled, "locked": &s.locked, "frozen": &s.frozen,
		"expired: security count": &s.expired, "supported: enhanced erase": &s.enhanced,
	}
	within := false
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, " ") {
			within = strings.HasPrefix(line, "Security:")
			continue
		}
		if !within {
			continue
		}
		words, not := strings.CutPrefix(strings.Join(strings.Fields(line), " "), "not ")
		if field := fields[words]; field != nil {
			*field = !not
		}
	}
	return s
}
