// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// everything are rules that select every disk.
func everything() DeviceRules { return DeviceRules{Include: []DeviceRule{{}}} }

// result returns the selection as "CLASS DEVICE", with what is not as usual.
func result(s Selected) []string {
	var lines []string
	for key, device := range s.Links {
		line := key.Class + " " + device
		if !s.Chosen[key] {
			line += " not chosen"
		}
		lines = append(lines, line)
	}
	for key := range s.Contested {
		lines = append(lines, key.Class+" contested")
	}
	slices.Sort(lines)
	return lines
}

func TestSelectMatches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		include, exclude DeviceRule
		change           func(*disk.BlockDevice)
		want             bool
	}{
		"no condition":                        {want: true},
		"the transport":                       {include: DeviceRule{Transport: disk.SAS}, want: true},
		"another transport":                   {include: DeviceRule{Transport: disk.NVMe}},
		"rotational":                          {include: DeviceRule{Rotational: new(true)}, want: true},
		"not rotational":                      {include: DeviceRule{Rotational: new(false)}},
		"the least size":                      {include: DeviceRule{MinBytes: 10<<30 + 1}, want: true},
		"one byte less than the least":        {include: DeviceRule{MinBytes: 10<<30 + 2}},
		"the largest size":                    {include: DeviceRule{MaxBytes: 10<<30 + 1}, want: true},
		"one byte more than the largest":      {include: DeviceRule{MaxBytes: 10 << 30}},
		"the model":                           {include: DeviceRule{Model: "ACME*"}, want: true},
		"another model":                       {include: DeviceRule{Model: "ACME"}},
		"the serial number":                   {include: DeviceRule{Serial: "S[0-9]"}, want: true},
		"the device":                          {include: DeviceRule{Path: "/dev/sd?"}, want: true},
		"a link":                              {include: DeviceRule{Path: "/dev/disk/by-id/wwn-*"}, want: true},
		"another path":                        {include: DeviceRule{Path: "/dev/nvme*"}},
		"one condition of two":                {include: DeviceRule{Transport: disk.SAS, Model: "OTHER*"}},
		"excluded":                            {exclude: DeviceRule{Serial: "S1"}},
		"not excluded":                        {exclude: DeviceRule{Serial: "S2"}, want: true},
		"not excluded by a link":              {exclude: DeviceRule{Path: "/dev/disk/by-id/ata-*"}, want: true},
		"perhaps excluded by a later link":    {exclude: DeviceRule{Path: "/dev/disk/by-id/ata-*"}, change: func(d *disk.BlockDevice) { d.Links = nil }},
		"without links, and excluded by none": {include: DeviceRule{Path: "/dev/sdb"}, exclude: DeviceRule{Path: "/dev/sda"}, change: func(d *disk.BlockDevice) { d.Links = nil }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sdb()
			d.Links = []string{"/dev/disk/by-id/wwn-0x5000c500a1b2c301"}
			if tc.change != nil {
				tc.change(&d)
			}
			rules := DeviceRules{Include: []DeviceRule{tc.include}}
			if tc.exclude != (DeviceRule{}) {
				rules.Exclude = []DeviceRule{tc.exclude}
			}
			got := Select(Selection{Classes: map[string]DeviceRules{"fast": rules}, Devices: []disk.BlockDevice{d}})
			if len(got.Chosen) == 1 != tc.want || len(got.Links) == 1 != tc.want {
				t.Errorf("selected %v, want %t", result(got), tc.want)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	name := SlotName(sdb().Identity)
	fast, slow := disk.Key{Class: "fast", Name: name}, disk.Key{Class: "slow", Name: name}
	both, none := map[string]DeviceRules{"fast": everything(), "slow": everything()}, map[string]DeviceRules{"fast": {}, "slow": {}}
	only := map[string]DeviceRules{"fast": {}, "slow": everything()}
	entry := map[disk.Key]disk.Fact{{Class: "folder", Name: "b"}: {Key: disk.Key{Class: "folder", Name: "b"}, HostPath: "/mnt/b", Identity: sdb().Identity}}
	for name, tc := range map[string]struct {
		classes    map[string]DeviceRules
		held       map[disk.Key]Held
		entries    map[disk.Key]disk.Fact
		incomplete bool
		change     func(*disk.BlockDevice)
		copies     int
		want       []string
	}{
		"one class":                        {classes: only, want: []string{"slow /dev/sdb"}},
		"no class":                         {classes: none},
		"two classes":                      {classes: both, want: []string{"fast contested", "slow contested"}},
		"two classes, one with a volume":   {classes: both, held: map[disk.Key]Held{slow: {Volume: true}}, want: []string{"slow /dev/sdb"}},
		"two classes, one cleaned it":      {classes: both, held: map[disk.Key]Held{slow: {}}, want: []string{"slow /dev/sdb"}},
		"another class cleaned it":         {classes: only, held: map[disk.Key]Held{fast: {}}, want: []string{"slow /dev/sdb"}},
		"another class has a volume":       {classes: only, held: map[disk.Key]Held{fast: {Volume: true}}, want: []string{"fast /dev/sdb not chosen"}},
		"another class has not cleaned it": {classes: only, held: map[disk.Key]Held{fast: {Dirty: true}}, want: []string{"fast /dev/sdb not chosen"}},
		"no class any more, and a claim":   {classes: none, held: map[disk.Key]Held{fast: {Volume: true, Claimed: true}}, want: []string{"fast /dev/sdb not chosen"}},
		"in a folder":                      {classes: only, entries: entry},
		"in a folder, and cleaned":         {classes: only, entries: entry, held: map[disk.Key]Held{slow: {}}},
		"in a folder, with a volume":       {classes: only, entries: entry, held: map[disk.Key]Held{slow: {Volume: true}}, want: []string{"slow /dev/sdb not chosen"}},
		"perhaps in a folder":              {classes: only, incomplete: true},
		"perhaps in a folder, with a volume": {
			classes: only, incomplete: true, held: map[disk.Key]Held{slow: {Volume: true}}, want: []string{"slow /dev/sdb"},
		},
		"in use":                  {classes: only, change: func(d *disk.BlockDevice) { d.Users = []disk.User{{What: "swap", Where: "/dev/sdb"}} }},
		"in use by its volume":    {classes: only, held: map[disk.Key]Held{slow: {Volume: true}}, change: func(d *disk.BlockDevice) { d.Users = []disk.User{{What: "mount", Where: "/var/lib/kubelet/x"}} }, want: []string{"slow /dev/sdb"}},
		"with partitions":         {classes: only, change: func(d *disk.BlockDevice) { d.Partitions = []string{"sdb1"} }},
		"read-only":               {classes: only, change: func(d *disk.BlockDevice) { d.ReadOnly = true }},
		"removable":               {classes: only, change: func(d *disk.BlockDevice) { d.Removable = true }},
		"a loop device":           {classes: only, change: func(d *disk.BlockDevice) { d.Transport = "" }},
		"of a cloud":              {classes: only, change: func(d *disk.BlockDevice) { d.Networked = true }},
		"without a lasting name":  {classes: only, change: func(d *disk.BlockDevice) { d.Identity = "weak:b1:7" }},
		"two paths":               {classes: only, copies: 1},
		"two paths of a volume":   {classes: only, copies: 1, held: map[disk.Key]Held{slow: {Volume: true}}},
		"local to a cloud's boot": {classes: only, change: func(d *disk.BlockDevice) { d.Identity = "serial:m:1@m1/b1" }, want: []string{"slow /dev/sdb"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sdb()
			if tc.change != nil {
				tc.change(&d)
			}
			devices := []disk.BlockDevice{d}
			for range tc.copies {
				d.Path = "/dev/sdc"
				devices = append(devices, d)
			}
			got := Select(Selection{Classes: tc.classes, Devices: devices, Held: tc.held, Entries: tc.entries, Incomplete: tc.incomplete})
			if diff := cmp.Diff(tc.want, result(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestSelectMax: a class keeps the disks of claims, then of volumes, then those that it has to
// clean, before it gets new ones.
func TestSelectMax(t *testing.T) {
	t.Parallel()
	var devices []disk.BlockDevice
	keys := map[int]disk.Key{}
	for i := range 5 {
		d := sdb()
		d.Path, d.Number, d.Identity = fmt.Sprintf("/dev/sd%c", 'a'+i), fmt.Sprintf("8:%d", 16*i), disk.Identity(fmt.Sprintf("wwn:naa.5%d", i))
		devices, keys[i] = append(devices, d), disk.Key{Class: "fast", Name: SlotName(d.Identity)}
	}
	held := map[disk.Key]Held{keys[1]: {}, keys[2]: {Dirty: true}, keys[3]: {Volume: true}, keys[4]: {Volume: true, Claimed: true}}
	for limit, want := range map[int][]string{
		0: {"fast /dev/sda", "fast /dev/sdb", "fast /dev/sdc", "fast /dev/sdd", "fast /dev/sde"},
		1: {"fast /dev/sdc not chosen", "fast /dev/sdd not chosen", "fast /dev/sde"},
		2: {"fast /dev/sdc not chosen", "fast /dev/sdd", "fast /dev/sde"},
		3: {"fast /dev/sdc", "fast /dev/sdd", "fast /dev/sde"},
		4: {"fast /dev/sdb", "fast /dev/sdc", "fast /dev/sdd", "fast /dev/sde"},
	} {
		rules := everything()
		rules.Max = limit
		if diff := cmp.Diff(want, result(Select(Selection{Classes: map[string]DeviceRules{"fast": rules}, Devices: devices, Held: held}))); diff != "" {
			t.Errorf("%d disks at most (-want +got):\n%s", limit, diff)
		}
	}
	// A disk that the rules select no longer, but has a volume, counts.
	rules := DeviceRules{Include: []DeviceRule{{Path: "/dev/sda"}, {Path: "/dev/sdb"}}, Max: 2}
	got := result(Select(Selection{Classes: map[string]DeviceRules{"fast": rules}, Devices: devices, Held: map[disk.Key]Held{keys[4]: {Volume: true, Claimed: true}}}))
	if diff := cmp.Diff([]string{"fast /dev/sda", "fast /dev/sde not chosen"}, got); diff != "" {
		t.Errorf("with a disk that is not selected (-want +got):\n%s", diff)
	}
}

// TestSelectProperties: with any disks, rules and volumes,
//   - a disk is linked by one class at most, and a new one only if it is eligible,
//   - a disk with a volume or data is linked by its class, whatever the rules are,
//   - no class chooses more than its limit, and only linked disks are chosen,
//   - selecting again, with what was chosen as volumes, changes nothing.
func TestSelectProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := Selection{Classes: map[string]DeviceRules{}, Held: map[disk.Key]Held{}}
		transports := []disk.Transport{disk.NVMe, disk.SATA, ""}
		for c := range 1 + r.IntN(3) {
			rules := DeviceRules{Max: r.IntN(4)}
			for range r.IntN(3) {
				rules.Include = append(rules.Include, DeviceRule{Transport: transports[r.IntN(3)], MinBytes: r.Int64N(4)})
			}
			if r.IntN(3) == 0 {
				rules.Exclude = []DeviceRule{{MinBytes: r.Int64N(8)}}
			}
			s.Classes[fmt.Sprintf("c%d", c)] = rules
		}
		holders := map[string]string{} // class by device
		for i := range r.IntN(8) {
			d := disk.BlockDevice{
				Path: fmt.Sprintf("/dev/d%d", i), Number: fmt.Sprintf("1:%d", i), Identity: disk.Identity(fmt.Sprintf("wwn:%d", i)),
				Transport: transports[r.IntN(2)], Bytes: 1 + r.Int64N(8), ReadOnly: r.IntN(6) == 0,
			}
			s.Devices = append(s.Devices, d)
			if class := fmt.Sprintf("c%d", r.IntN(3)); r.IntN(2) == 0 && s.Classes[class].Include != nil {
				h := Held{Dirty: r.IntN(2) == 0, Volume: r.IntN(2) == 0}
				if s.Held[disk.Key{Class: class, Name: SlotName(d.Identity)}] = h; h.Dirty || h.Volume {
					holders[d.Path] = class
				}
			}
		}
		got := Select(s)
		if problem := checkSelected(s, got, holders); problem != "" {
			t.Fatalf("seed %d: %s\n%+v\n%v", seed, problem, s, strings.Join(result(got), "\n"))
		}
		again := s
		again.Held = maps.Clone(s.Held)
		for key := range got.Chosen {
			again.Held[key] = Held{Volume: true}
		}
		if diff := cmp.Diff(got, Select(again)); diff != "" {
			t.Fatalf("seed %d: selecting again (-first +again):\n%s", seed, diff)
		}
	}
}

// checkSelected returns what is wrong with a selection; empty for nothing.
func checkSelected(s Selection, got Selected, holders map[string]string) string {
	classes, chosen := map[string]string{}, map[string]int{}
	for key, device := range got.Links {
		if other := classes[device]; other != "" {
			return fmt.Sprintf("%s is linked by %s and %s", device, other, key.Class)
		}
		classes[device] = key.Class
	}
	for key := range got.Chosen {
		if chosen[key.Class]++; got.Links[key] == "" || got.Contested[key] != nil {
			return fmt.Sprintf("%s is chosen and not linked", key)
		}
		if limit := s.Classes[key.Class].Max; limit > 0 && chosen[key.Class] > limit {
			return fmt.Sprintf("class %s has more than %d disks", key.Class, limit)
		}
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		switch holder := holders[d.Path]; {
		case holder != "" && classes[d.Path] != holder:
			return fmt.Sprintf("%s has data of %s and is linked by %q", d.Path, holder, classes[d.Path])
		case holder == "" && classes[d.Path] != "" && d.ReadOnly:
			return d.Path + " is not eligible"
		}
	}
	return ""
}

func TestSlotName(t *testing.T) {
	t.Parallel()
	long := disk.Identity("serial:" + strings.Repeat("a", 300))
	for id, want := range map[disk.Identity]string{
		"wwn:naa.5000c500a1b2c301":       "wwn-naa.5000c500a1b2c301-",
		"serial:SAMSUNG 860%2F/1:S1@m/b": "serial-SAMSUNG-860-2F-1-S1-",
		long:                             string(long[:6]) + "-" + strings.Repeat("a", nameLength-7) + "-",
	} {
		if got := SlotName(id); !strings.HasPrefix(got, want) || len(got) != len(want)+16 {
			t.Errorf("the slot of %s is %s, want %s and a hash", id, got, want)
		}
	}
	if SlotName("serial:a:b@m1/b1") != SlotName("serial:a:b@m2") || SlotName("serial:a:b") == SlotName("serial:a-b") {
		t.Error("the name of a slot depends on the machine, or not on the disk's name")
	}
}
