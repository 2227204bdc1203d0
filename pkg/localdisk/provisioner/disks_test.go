// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// disks is a fake of package host.
type disks struct {
	mu    sync.Mutex
	facts map[string]disk.Fact // by name
	data  map[disk.Identity]string
	users map[disk.Identity][]disk.User
	links map[string]string // targets, by path; the Place of a mounted device
	// unlinked are the links that were removed.
	unlinked []string
	// made are the file systems that MakeFilesystem was called for; cannotMake is why it fails.
	made       []string
	cannotMake error
	// devices are what rules select; noDevices is why they cannot be listed. A link to one becomes
	// a fact.
	devices   []disk.BlockDevice
	noDevices error
	// trouble are the folders that cannot be read, by class.
	trouble map[string]*disk.Problem
	// formats are what is on devices.
	formats map[disk.Identity]disk.Superblock
	looks   int
	asked   int // questions that read a disk
	cleans  []string
	// hidden is where a device has data that only a read of the whole device finds, writes
	// counts writes to it, and proofs are the reads of whole devices.
	hidden map[disk.Identity]int64
	// slowReads makes a read of a whole device take a second for each step.
	slowReads bool
	writes    map[disk.Identity]int
	proofs    []string
	// silent are disks that do not answer, failing are disks that return an error.
	silent  map[disk.Identity]chan struct{}
	failing map[disk.Identity]error
	// during, if set, is called in the middle of a clean.
	during func(ctx context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error
	// slow is the duration of a scan.
	slow time.Duration
	// timeout is the last argument of SetTimeout.
	timeout time.Duration
}

func newDisks() *disks {
	return &disks{
		facts: map[string]disk.Fact{}, data: map[disk.Identity]string{}, users: map[disk.Identity][]disk.User{},
		links: map[string]string{}, formats: map[disk.Identity]disk.Superblock{},
		hidden: map[disk.Identity]int64{}, writes: map[disk.Identity]int{},
		trouble: map[string]*disk.Problem{},
		silent:  map[disk.Identity]chan struct{}{}, failing: map[disk.Identity]error{},
	}
}

// add attaches a disk with some data, or none.
func (d *disks) add(name, data string) disk.Identity {
	f := fact(name)
	d.put(f)
	d.write(f.Identity, data)
	return f.Identity
}

func (d *disks) put(f disk.Fact) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.facts[f.Name] = f
}

func (d *disks) take(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.facts, name)
}

func (d *disks) write(identity disk.Identity, data string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.data[identity] = data
	d.writes[identity]++
}

func (d *disks) read(identity disk.Identity) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.data[identity]
}

// hang makes all reads of a disk hang until free.
func (d *disks) hang(identity disk.Identity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent[identity] = make(chan struct{})
}

// fail makes reads of a disk return an error; nil ends that.
func (d *disks) fail(identity disk.Identity, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing[identity] = err
}

// free ends hang for all disks.
func (d *disks) free() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for identity, until := range d.silent {
		close(until)
		delete(d.silent, identity)
	}
}

// reach reads a disk.
func (d *disks) reach(identity disk.Identity) error {
	d.mu.Lock()
	d.asked++
	until, err := d.silent[identity], d.failing[identity]
	d.mu.Unlock()
	if until != nil {
		<-until // whatever the context says: a disk in D state
		return errors.New("too late")
	}
	return err
}

// Scan returns the facts of the folders. One of a disk that was published at another path has a problem.
func (d *disks) Scan(_ context.Context, s disk.Scan) disk.Scanned {
	time.Sleep(d.slow) //nolint:forbidigo // the bubble's time
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks++
	scanned := disk.Scanned{Facts: map[disk.Key]disk.Fact{}, Trouble: maps.Clone(d.trouble)}
	for _, f := range d.facts {
		if !slices.ContainsFunc(s.Folders, func(folder disk.Folder) bool { return folder.HostPath == path.Dir(f.HostPath) }) {
			continue
		}
		for _, k := range s.Known {
			if f.Problem == nil && k.Volume != "" && k.Identity == f.Identity && k.Key != f.Key && !(k.Displaced && k.Key.Class == f.Class) {
				f.Problem = disk.Problemf(disk.SameBytes, "%s is the disk of volume %s", f.HostPath, k.Volume)
			}
		}
		scanned.Facts[f.Key] = f
	}
	return scanned
}

// looked returns the number of scans since the last call.
func (d *disks) looked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	looks := d.looks
	d.looks = 0
	return looks
}

func (d *disks) SetTimeout(timeout time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timeout = timeout
}

func (d *disks) Watch(ctx context.Context, _ []disk.Folder, changed func()) error {
	changed()
	<-ctx.Done()
	return nil
}

// oldBytes is data without a signature, as fs-reset leaves it on a device.
const oldBytes = "old bytes"

func (d *disks) Cleaned(ctx context.Context, f disk.Fact, mode disk.Mode) (disk.Content, string, error) {
	content, found, err := d.content(ctx, f)
	if found == oldBytes && f.Kind == disk.Device && mode == disk.Filesystem {
		return disk.ContentNone, "", err
	}
	return content, found, err
}

func (d *disks) Inspect(ctx context.Context, f disk.Fact, suspect int64) (disk.Content, string, error) {
	if f.Kind != disk.Device {
		return d.content(ctx, f)
	}
	if err := d.reach(f.Identity); err != nil {
		return disk.ContentUnknown, "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch at, hidden := d.hidden[f.Identity]; {
	case d.data[f.Identity] != "":
		return disk.ContentSome, d.data[f.Identity], nil
	case hidden && suspect == at:
		return disk.ContentSome, fmt.Sprintf("data at byte %d", at), nil
	default:
		return disk.ContentSampled, "", nil
	}
}

// proofStep is the size of a read of a device.
const proofStep = 1 << 20

func (d *disks) ProveBlank(ctx context.Context, request disk.BlankProofRequest, progress func(disk.BlankProof) error) (disk.BlankProof, error) {
	id := request.Target.Identity
	proof := request.From
	d.mu.Lock()
	state := fmt.Sprintf("written %d times", d.writes[id])
	if !proof.Complete() {
		d.proofs = append(d.proofs, fmt.Sprintf("%s from %d", request.Target.Name, proof.Done))
	}
	d.mu.Unlock()
	if proof == (disk.BlankProof{}) {
		proof = disk.BlankProof{State: state, Bytes: request.Target.Bytes}
	}
	for {
		if err := d.reach(id); err != nil {
			return proof, err
		}
		d.mu.Lock()
		written := fmt.Sprintf("written %d times", d.writes[id]) != proof.State
		at, hidden := d.hidden[id]
		slow := d.slowReads
		d.mu.Unlock()
		switch {
		case written:
			return disk.BlankProof{}, disk.ErrBlankProofVoid
		case proof.Done == proof.Bytes:
			return proof, nil
		case hidden && proof.Done <= at && at < proof.Done+proofStep:
			proof.Done, proof.Found = at, true
			return proof, nil
		}
		proof.Done = min(proof.Done+proofStep, proof.Bytes)
		if err := progress(proof); err != nil {
			return proof, err
		}
		if slow {
			select {
			case <-ctx.Done():
				return proof, ctx.Err()
			case <-time.After(time.Second):
			}
		}
	}
}

// slowly makes reads of whole devices take time from now on.
func (d *disks) slowly() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slowReads = true
}

// hide writes data that only a read of the whole device finds; show removes it.
func (d *disks) hide(identity disk.Identity, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hidden[identity] = at
	d.writes[identity]++
}

func (d *disks) show(identity disk.Identity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hidden, identity)
	d.writes[identity]++
}

// proved returns the reads of whole devices that started since the last call.
func (d *disks) proved() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.proofs
	d.proofs = nil
	return all
}

func (d *disks) content(_ context.Context, f disk.Fact) (disk.Content, string, error) {
	if err := d.reach(f.Identity); err != nil {
		return disk.ContentUnknown, "", err
	}
	if data := d.read(f.Identity); data != "" {
		return disk.ContentSome, data, nil
	}
	return disk.ContentNone, "", nil
}

func (d *disks) Users(_ context.Context, f disk.Fact, _ string) ([]disk.User, error) {
	if err := d.reach(f.Identity); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.users[f.Identity]), nil
}

func (d *disks) Root(_ context.Context, f disk.Fact) (json.RawMessage, error) {
	return nil, d.reach(f.Identity)
}

func (d *disks) Clean(ctx context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error {
	d.mu.Lock()
	d.cleans = append(d.cleans, request.Target.Name)
	during := d.during
	d.mu.Unlock()
	if err := d.reach(request.Target.Identity); err != nil {
		return err
	}
	if during != nil {
		if err := during(ctx, request, progress); err != nil {
			return err
		}
	}
	d.write(request.Target.Identity, "")
	d.format(request.Target.Identity, disk.Superblock{})
	d.show(request.Target.Identity)
	return progress(disk.Progress{Done: request.Target.Bytes, Total: request.Target.Bytes, Step: "done"})
}

func (d *disks) ReadSuperblock(_ context.Context, f disk.Fact) (disk.Superblock, error) {
	if err := d.reach(f.Identity); err != nil {
		return disk.Superblock{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.formats[f.Identity], nil
}

func (d *disks) LinkTarget(link string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.links[link], nil
}

func (d *disks) AddLink(link string, f disk.Fact) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links[link] = f.Device
	return nil
}

func (d *disks) RemoveLink(link string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.links[link] != "" {
		d.unlinked = append(d.unlinked, link)
	}
	delete(d.links, link)
	return nil
}

func (d *disks) Mount(_ context.Context, v disk.Volume, f disk.Fact, format disk.Format) error {
	if err := d.reach(f.Identity); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.formats[f.Identity]; found.Format != format {
		return disk.Problemf(disk.FilesystemChanged, "holds %s", found.Holds())
	}
	d.links[v.Link] = f.Place
	return nil
}

func (d *disks) Mounted() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.links)), func(link string) bool { return !strings.HasPrefix(link, disk.MountFolder) }), nil
}

func (d *disks) Unused(f disk.Fact, _ disk.Format) (disk.Content, string, error) {
	return d.content(context.Background(), f)
}

func (d *disks) MakeFilesystem(_ context.Context, f disk.Fact, format disk.Format) error {
	if err := d.reach(f.Identity); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = append(d.made, f.Name+" "+format.Type)
	if d.cannotMake == nil {
		d.formats[f.Identity] = disk.Superblock{Format: format}
	}
	return d.cannotMake
}

// formattedDisks returns the calls of MakeFilesystem since the last call.
func (d *disks) formattedDisks() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	made := d.made
	d.made = nil
	return made
}

func (d *disks) BlockDevices() ([]disk.BlockDevice, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.devices), d.noDevices
}

func (d *disks) ReadContent(ctx context.Context, device disk.BlockDevice) disk.Superblock {
	found, _ := d.ReadSuperblock(ctx, disk.Fact{Identity: device.Identity})
	return found
}

// LinkDevices replaces the facts of the folder, which exists from then on.
func (d *disks) LinkDevices(folder string, devices map[string]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.trouble, path.Base(folder))
	maps.DeleteFunc(d.facts, func(_ string, f disk.Fact) bool { return path.Dir(f.HostPath) == folder })
	for name, node := range devices {
		i := slices.IndexFunc(d.devices, func(b disk.BlockDevice) bool { return b.Path == node })
		at := path.Join(folder, name)
		d.facts[at] = disk.Fact{
			Key: disk.Key{Class: path.Base(folder), Name: name}, HostPath: at, Path: at, Kind: disk.Device, Device: node,
			Identity: d.devices[i].Identity, Place: "dev:" + d.devices[i].Number, Bytes: d.devices[i].Bytes, Attachment: "boot1/diskseq:1",
		}
	}
	return nil
}

// format sets the superblock of a device.
func (d *disks) format(identity disk.Identity, found disk.Superblock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.formats[identity] = found
}

// linked returns all links with their targets.
func (d *disks) linked() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.links)
}

func (d *disks) Restore(_ context.Context, f disk.Fact, _ json.RawMessage) error {
	return d.reach(f.Identity)
}

// cleaned returns the disks whose clean started since the last call.
func (d *disks) cleaned() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.cleans
	d.cleans = nil
	return all
}
