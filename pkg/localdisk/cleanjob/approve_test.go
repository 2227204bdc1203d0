// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanjob

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

const identity, deviceIdentity = disk.Identity("fs:u1:/"), disk.Identity("wwn:0x5000")

// honest returns a valid request, for a released volume.
func honest() (Request, *disk.Volume, *Class) {
	key := disk.Key{Class: "fast", Name: "disk1"}
	return Request{
			Node: "n1", Key: key, Path: "/mnt/fast/disk1", Volume: "pv1", VolumeUID: "uid1", Identity: identity, Attempt: "0123456789abcdef", Step: "half",
		}, &disk.Volume{
			Name: "pv1", UID: "uid1", Key: key, HostPath: "/mnt/fast/disk1", Mode: disk.Filesystem, Identity: identity,
			Phase: disk.PhaseReleased, Policy: disk.Delete, Claimed: true, Deleting: true, Finalized: true,
		}, &Class{HostDir: "/mnt/fast", DeviceCommand: []string{"zero"}, FilesCommand: []string{"/opt/clean", "all"}, Timeout: time.Hour}
}

func TestApprove(t *testing.T) {
	t.Parallel()
	r, v, c := honest()
	got, problem := Approve(r, v, c)
	if problem != nil {
		t.Fatal(problem)
	}
	want := Order{
		Node: "n1", HostDir: "/mnt/fast", Volume: "pv1", VolumeUID: "uid1", Key: r.Key, Mode: disk.Filesystem, Identity: identity,
		Command: []string{"/opt/clean", "all"}, Attempt: r.Attempt, Step: "half", Timeout: time.Hour,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r.Identity, v.Identity, v.Mode = deviceIdentity, deviceIdentity, disk.Block
	if got, problem = Approve(r, v, c); problem != nil || !cmp.Equal(got.Command, []string{"zero"}) {
		t.Errorf("a device is cleaned by %q: %v", got.Command, problem)
	}
}

// TestApproveRejects has, for every way in which a request may be invalid, one that is
// invalid in this way only.
func TestApproveRejects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(r *Request, v *disk.Volume, c *Class)
		want   disk.Reason
	}{
		"of another UID":        {func(r *Request, _ *disk.Volume, _ *Class) { r.VolumeUID = "uid2" }, NoSuchVolume},
		"not being deleted":     {func(_ *Request, v *disk.Volume, _ *Class) { v.Deleting = false }, NotReleased},
		"without the finalizer": {func(_ *Request, v *disk.Volume, _ *Class) { v.Finalized = false }, NotReleased},
		"bound":                 {func(_ *Request, v *disk.Volume, _ *Class) { v.Phase = disk.PhaseBound }, NotReleased},
		"about to be bound by a claim that it names": {func(_ *Request, v *disk.Volume, _ *Class) { v.Phase = disk.PhaseAvailable }, NotReleased},
		"to be retained":                       {func(_ *Request, v *disk.Volume, _ *Class) { v.Policy = disk.Retain }, NotReleased},
		"of another disk":                      {func(r *Request, _ *disk.Volume, _ *Class) { r.Identity = "fs:u2:/" }, Mismatch},
		"of no disk":                           {func(r *Request, _ *disk.Volume, _ *Class) { r.Identity = "" }, Mismatch},
		"without an identity":                  {func(_ *Request, v *disk.Volume, _ *Class) { v.Identity = "" }, Mismatch},
		"of another class":                     {func(r *Request, _ *disk.Volume, _ *Class) { r.Key.Class = "slow" }, Mismatch},
		"of another name":                      {func(r *Request, _ *disk.Volume, _ *Class) { r.Key.Name = "../disk1" }, Mismatch},
		"at another path":                      {func(r *Request, _ *disk.Volume, _ *Class) { r.Path = "/mnt/fast/disk2" }, Mismatch},
		"outside of its class's folder":        {func(_ *Request, _ *disk.Volume, c *Class) { c.HostDir = "/mnt/other" }, Mismatch},
		"below an entry of its class's folder": {func(_ *Request, _ *disk.Volume, c *Class) { c.HostDir = "/mnt" }, Mismatch},
		"at a path that leads out": {func(r *Request, v *disk.Volume, _ *Class) {
			r.Path, v.HostPath = "/mnt/fast/../disk1", "/mnt/fast/../disk1"
		}, Mismatch},
		"at a path that is the folder": {func(r *Request, v *disk.Volume, _ *Class) {
			r.Path, v.HostPath, r.Key.Name, v.Key.Name = "/mnt/fast/.", "/mnt/fast/.", ".", "."
		}, Mismatch},
		"offered as a device, which a file system is not": {func(_ *Request, v *disk.Volume, _ *Class) { v.Mode = disk.Block }, Mismatch},
		"of a method that is the provisioner's": {func(r *Request, v *disk.Volume, c *Class) {
			r.Identity, v.Identity, c.DeviceCommand = deviceIdentity, deviceIdentity, []string{"hdparm"}
		}, MethodNeedsProvisioner},
		"whose drive is locked by the provisioner's password": {func(r *Request, _ *disk.Volume, _ *Class) { r.Step = "hdparm password 00" }, MethodNeedsProvisioner},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, v, c := honest()
			test.change(&r, v, c)
			if _, problem := Approve(r, v, c); problem == nil || problem.Reason != test.want {
				t.Errorf("a volume %s: %v, want %s", name, problem, test.want)
			}
		})
	}
	r, v, c := honest()
	if _, problem := Approve(r, nil, c); problem == nil || problem.Reason != NoSuchVolume {
		t.Errorf("no volume: %v", problem)
	}
	if _, problem := Approve(r, v, nil); problem == nil || problem.Reason != disk.NotConfigured {
		t.Errorf("no class: %v", problem)
	}
}

func TestApproveAcceptedDisk(t *testing.T) {
	t.Parallel()
	r, v, c := honest()
	r.Identity, v.Identity, v.Accepted = "weak:b2:7", "weak:b1:7", "weak:b2:7"
	if got, problem := Approve(r, v, c); problem != nil || got.Identity != "weak:b2:7" {
		t.Errorf("a disk that an administrator has accepted: %v, %v", got, problem)
	}
}
