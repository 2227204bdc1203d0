// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// labelsPeriod is the time between two reads of the Node's labels, by which classes may select.
const labelsPeriod = 5 * time.Minute

// selectDevices links the disks that the rules of classes select into the folders of the classes,
// and returns the scan with the disks that several classes select as problems. A change is observed by
// the next scan. If the devices are not known, nothing is known about the classes.
func (p *Provisioner) selectDevices(ctx context.Context, scanned disk.Scanned) disk.Scanned {
	conf, classes := p.rules()
	if len(classes) == 0 {
		return scanned
	}
	scanned.Facts, scanned.Trouble = maps.Clone(scanned.Facts), maps.Clone(scanned.Trouble)
	devices, err := p.Devices.BlockDevices()
	if err != nil {
		for class := range classes {
			scanned.Trouble[class] = disk.Problemf(disk.Unreadable, "the node's devices, of which the rules select, are not known: %v", err)
		}
		return scanned
	}
	request := decide.Selection{Classes: classes, Devices: devices, Held: p.held(conf, classes), Entries: map[disk.Key]disk.Fact{}}
	for key, fact := range scanned.Facts {
		if _, byRule := classes[key.Class]; !byRule {
			request.Entries[key] = fact
		}
	}
	for class := range scanned.Trouble {
		if _, byRule := classes[class]; !byRule {
			request.Incomplete = true
		}
	}
	selected, linked := decide.Select(request), map[string]map[string]string{}
	for class := range classes {
		folder, links := conf.directories[class], linksOf(selected, class)
		if err := p.Fence.LinkDevices(folder, links); err != nil {
			scanned.Trouble[class] = disk.Problemf(disk.Unreadable, "the selected disks cannot be linked into %s: %v", folder, err)
			continue
		}
		linked[class] = links
	}
	if !maps.EqualFunc(p.linked, linked, maps.Equal) {
		p.linked = linked
		p.scanner.Request()
	}
	for key, problem := range selected.Contested {
		at := path.Join(conf.directories[key.Class], key.Name)
		scanned.Facts[key] = disk.Fact{Key: key, HostPath: at, Path: at, Kind: disk.Device, Problem: problem}
	}
	p.choose(ctx, conf, selected)
	return scanned
}

// rules returns the rules of the classes that have some.
func (p *Provisioner) rules() (*settings, map[string]decide.DeviceRules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	classes := map[string]decide.DeviceRules{}
	for name, class := range p.settings.Classes {
		if class.Devices == nil {
			continue
		}
		var rules decide.DeviceRules
		if class.Devices.Selects(p.labels) {
			rules.Include, rules.Exclude = deviceRules(class.Devices.Include), deviceRules(class.Devices.Exclude)
		}
		if class.Devices.Max != nil {
			rules.Max = int(*class.Devices.Max)
		}
		classes[name] = rules
	}
	return p.settings, classes
}

func deviceRules(configured []provisioner.DeviceRule) []decide.DeviceRule {
	var rules []decide.DeviceRule
	for _, r := range configured {
		rules = append(rules, decide.DeviceRule{
			Transport: disk.Transport(r.Transport), Rotational: r.Rotational, MinBytes: bytesOf(r.MinSize), MaxBytes: bytesOf(r.MaxSize),
			Model: r.Model, Serial: r.Serial, Path: r.Path,
		})
	}
	return rules
}

func bytesOf(size *resource.Quantity) int64 {
	if size == nil {
		return 0
	}
	return size.Value()
}

// held returns the slots of classes that have a volume or a record. If that was of a folder that the
// class had before it had rules, the slot is that of its disk now.
func (p *Provisioner) held(conf *settings, classes map[string]decide.DeviceRules) map[disk.Key]decide.Held {
	held := map[disk.Key]decide.Held{}
	add := func(key disk.Key, at string, id disk.Identity, more decide.Held) {
		if _, byRule := classes[key.Class]; !byRule {
			return
		}
		if path.Dir(at) != conf.directories[key.Class] {
			key.Name = decide.SlotName(id)
		}
		h := held[key]
		held[key] = decide.Held{Dirty: h.Dirty || more.Dirty, Volume: h.Volume || more.Volume, Claimed: h.Claimed || more.Claimed}
	}
	for _, record := range p.Records.All() {
		add(record.Key, record.HostPath, record.Identity, decide.Held{Dirty: record.State.Dirty()})
	}
	for _, object := range p.volumes.GetStore().List() {
		if v, ok := p.volumes.read(conf, object); ok {
			add(v.Key, v.HostPath, v.Identity, decide.Held{Volume: true, Claimed: v.Claimed})
		}
	}
	return held
}

// linksOf returns the links of a class, by name.
func linksOf(selected decide.Selected, class string) map[string]string {
	links := map[string]string{}
	for key, device := range selected.Links {
		if key.Class == class {
			links[key.Name] = device
		}
	}
	return links
}

// choose stores the slots that are chosen, and enqueues those that have changed.
func (p *Provisioner) choose(ctx context.Context, conf *settings, selected decide.Selected) {
	p.mu.Lock()
	before := p.chosen
	p.chosen = selected.Chosen
	p.mu.Unlock()
	if maps.Equal(before, selected.Chosen) {
		return
	}
	klog.FromContext(ctx).V(2).Info("Selected disks by rules", "chosen", namesOf(selected.Chosen), "linked", namesOf(selected.Links), "contested", namesOf(selected.Contested))
	for _, keys := range []map[disk.Key]bool{before, selected.Chosen} {
		for key := range keys {
			if before[key] != selected.Chosen[key] {
				p.queue.Add(path.Join(conf.directories[key.Class], key.Name))
			}
		}
	}
}

// namesOf returns slots for the log, in order.
func namesOf[T any](slots map[disk.Key]T) []string {
	var names []string
	for key := range slots {
		names = append(names, key.String())
	}
	slices.Sort(names)
	return names
}

// followLabels reads the Node's labels periodically while classes select by them.
func (p *Provisioner) followLabels(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(labelsPeriod + rand.N(labelsPeriod/10)):
		}
		if !p.configuration().SelectsByLabels() {
			continue
		}
		p.mu.Lock()
		before := p.labels
		p.mu.Unlock()
		reading, cancel := context.WithTimeout(ctx, refreshTimeout)
		err := p.refreshNode(reading)
		cancel()
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to get the labels of the Node; disks are selected by the former ones", "retry", labelsPeriod)
			continue
		}
		p.mu.Lock()
		changed := !maps.Equal(before, p.labels)
		p.mu.Unlock()
		if changed {
			p.scanner.Request()
		}
	}
}
