// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// nvme is disk i of the node.
func nvme(i int) disk.BlockDevice {
	return disk.BlockDevice{
		Path: fmt.Sprintf("/dev/nvme%dn1", i), Number: fmt.Sprintf("259:%d", i), Identity: disk.Identity(fmt.Sprintf("nvme:eui.%d", i)), Transport: disk.NVMe,
		Model: "ACME", Serial: fmt.Sprintf("S%d", i), Bytes: 4 << 20,
	}
}

// slotOf returns the name of the slot of disk i.
func slotOf(i int) string { return decide.SlotName(nvme(i).Identity) }

// byRule changes the configuration to classes that select disks by rules. Their cleaning
// method is that of devices.
func (e *env) byRule(rules map[string]provisioner.Devices) {
	e.t.Helper()
	config := e.config.DeepCopy()
	config.Classes = map[string]provisioner.Class{}
	for name, devices := range rules {
		class := e.config.Classes["fast"]
		class.HostDir = "/dev/stowage/devices/" + name
		class.MountDir, class.Devices = class.HostDir, &devices
		config.Classes[name] = class
	}
	if e.provisioner == nil {
		e.config = config
		return
	}
	e.provisioner.Configure(context.Background(), config)
	e.pass(decide.AbsentAfter * 10 * defaultRecheck)
}

func allNVMe() provisioner.Devices {
	return provisioner.Devices{Include: []provisioner.DeviceRule{{Transport: "nvme"}}}
}

// selected returns the disks that are linked into the folders of classes.
func (e *env) selected() []string {
	e.disks.mu.Lock()
	defer e.disks.mu.Unlock()
	var names []string
	for _, f := range e.disks.facts {
		names = append(names, f.Class+" "+f.Device)
	}
	slices.Sort(names)
	return names
}

func (e *env) expectSelected(when string, want ...string) {
	e.t.Helper()
	if diff := cmp.Diff(want, e.selected()); diff != "" {
		e.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// TestSelectedDiskIsPublished: a disk that a rule selects is published after it was proven to be
// blank, with the provisioner's link as path; one with data is not.
func TestSelectedDiskIsPublished(t *testing.T) {
	t.Parallel()
	inBubble(t, func(e *env) {
		e.byRule(map[string]provisioner.Devices{"fast": allNVMe()})
		e.disks.devices = []disk.BlockDevice{nvme(1), nvme(2)}
		e.disks.write(nvme(2).Identity, "an ext4 file system")
		e.start()
		e.expectSelected("after the start", "fast /dev/nvme1n1", "fast /dev/nvme2n1")
		e.phase(corev1.VolumeAvailable)
		e.expect(slotOf(1), "Available")
		e.expect(slotOf(2), "Skipped: NotEmpty")
		if diff := cmp.Diff([]string{slotOf(1) + " from 0"}, e.disks.proved()); diff != "" {
			t.Errorf("proofs (-want +got):\n%s", diff)
		}
		pv := e.volume()
		if want := localpv.LinkPath("fast", pv.Name); pv.Spec.Local.Path != want {
			t.Errorf("the path is %s, want %s", pv.Spec.Local.Path, want)
		}
		e.phase(corev1.VolumeBound)
		if diff := cmp.Diff(map[string]string{pv.Spec.Local.Path: "/dev/nvme1n1"}, e.disks.linked()); diff != "" {
			t.Errorf("links of volumes (-want +got):\n%s", diff)
		}
	})
}

// TestRulesChange: a change of the rules withdraws a free volume, and keeps one with a claim,
// whose disk its class cleans. Another class has a disk only after that.
func TestRulesChange(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]bool{"a free volume": false, "a volume with a claim": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(e *env) {
				if _, err := e.api.StorageV1().StorageClasses().Create(context.Background(), class("slow", corev1.PersistentVolumeReclaimDelete), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				e.byRule(map[string]provisioner.Devices{"fast": allNVMe()})
				e.disks.devices = []disk.BlockDevice{nvme(1)}
				e.start()
				e.phase(corev1.VolumeAvailable)
				if bound {
					e.phase(corev1.VolumeBound)
				}
				none := provisioner.Devices{Include: []provisioner.DeviceRule{{Transport: "sata"}}}
				e.byRule(map[string]provisioner.Devices{"fast": none, "slow": allNVMe()})
				if bound {
					e.expectSelected("with a claim", "fast /dev/nvme1n1")
					e.expect(slotOf(1), "Bound: NotConfigured")
					e.disks.write(nvme(1).Identity, "data of the claim")
					e.phase(corev1.VolumeReleased)
					e.look()
				}
				e.expectSelected("at the end", "slow /dev/nvme1n1")
				if diff := cmp.Diff([]string{slotOf(1)}, e.disks.cleaned()); diff != "" {
					t.Errorf("cleans (-want +got):\n%s", diff)
				}
				if pv := e.volume(); pv == nil || pv.Spec.StorageClassName != "slow" {
					t.Errorf("the volume is %v, want one of class slow", pv)
				}
			})
		})
	}
}

// localDisks are the LocalDisks of the API server, by name.
type localDisks struct {
	mu  sync.Mutex
	all map[string]*stowage.LocalDisk
}

func (l *localDisks) Get(_ context.Context, name string, _ metav1.GetOptions) (*stowage.LocalDisk, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if object := l.all[name]; object != nil {
		return object.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(stowage.Resource("localdisks"), name)
}

func (l *localDisks) Create(_ context.Context, object *stowage.LocalDisk, _ metav1.CreateOptions) (*stowage.LocalDisk, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[object.Name] = object.DeepCopy()
	return object, nil
}

func (l *localDisks) UpdateStatus(ctx context.Context, object *stowage.LocalDisk, _ metav1.UpdateOptions) (*stowage.LocalDisk, error) {
	return l.Create(ctx, object, metav1.CreateOptions{})
}

// states returns the state, the class and the reason of each LocalDisk, by device.
func (l *localDisks) states() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	states := map[string]string{}
	for _, object := range l.all {
		status := object.Status
		states[status.Device] = strings.TrimSpace(fmt.Sprintf("%s %s%s: %s", status.State, status.Class, status.Reason, status.Message))
	}
	return states
}

// TestContestedDisk: of two classes that select a disk, neither has it, and both report it, as does
// its LocalDisk, also if it holds data.
func TestContestedDisk(t *testing.T) {
	t.Parallel()
	inBubble(t, func(e *env) {
		e.localDisks = &localDisks{all: map[string]*stowage.LocalDisk{}}
		e.config.ListDisks = true
		e.byRule(map[string]provisioner.Devices{"fast": allNVMe(), "slow": allNVMe()})
		inUse := nvme(3)
		inUse.Users = []disk.User{{What: "swap"}}
		e.disks.devices = []disk.BlockDevice{nvme(1), nvme(2), inUse}
		e.disks.format(nvme(2).Identity, disk.Superblock{Format: disk.Format{Type: "xfs", UUID: "u"}})
		e.disks.write(nvme(2).Identity, "an xfs file system")
		listed := func(when string, want map[string]string) {
			t.Helper()
			e.pass(time.Minute) // longer than the time between two passes of the lister
			if diff := cmp.Diff(want, e.localDisks.states()); diff != "" {
				t.Errorf("LocalDisks %s (-want +got):\n%s", when, diff)
			}
		}
		e.start()
		e.expectSelected("by both")
		var reported []string
		for _, entry := range e.provisioner.status.Entries() {
			reported = append(reported, fmt.Sprint(entry.Class, " ", entry.State, " ", entry.Reason))
		}
		slices.Sort(reported)
		if diff := cmp.Diff([]string{"fast Skipped SeveralClasses", "fast Skipped SeveralClasses", "slow Skipped SeveralClasses", "slow Skipped SeveralClasses"}, reported); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		const contested = "Ineligible SeveralClasses: %s is selected by the rules of the classes fast, slow, so none has it: change include or exclude of devices until one selects it"
		used := "Ineligible InUse: /dev/nvme3n1 is used by a swap"
		listed("selected by both", map[string]string{
			"/dev/nvme1n1": fmt.Sprintf(contested, "/dev/nvme1n1"), "/dev/nvme2n1": fmt.Sprintf(contested, "/dev/nvme2n1"), "/dev/nvme3n1": used,
		})
		e.byRule(map[string]provisioner.Devices{"fast": allNVMe()})
		e.expectSelected("by one", "fast /dev/nvme1n1", "fast /dev/nvme2n1")
		e.phase(corev1.VolumeAvailable)
		e.expect(slotOf(1), "Available")
		listed("selected by one", map[string]string{"/dev/nvme1n1": "Assigned fast:", "/dev/nvme2n1": "Assigned fast:", "/dev/nvme3n1": used})
	})
}

// TestClassGetsRules: a class that had a folder gets rules. Its volumes keep their links and their
// disks, also one that pods use, if the disk is still the volume's. A free one is withdrawn if the rules do
// not select its disk. When the claim is gone, the class cleans the disk.
func TestClassGetsRules(t *testing.T) {
	t.Parallel()
	serial := func(i int) provisioner.Devices {
		return provisioner.Devices{Include: []provisioner.DeviceRule{{Serial: nvme(i).Serial}}}
	}
	atFolder := map[string]string{"Bound": folder + "/a", "Available": folder + "/b"}
	atRules := map[string]string{"Bound": "/dev/stowage/devices/fast/" + slotOf(1), "Available": "/dev/stowage/devices/fast/" + slotOf(2)}
	for name, test := range map[string]struct {
		rules provisioner.Devices
		want  map[string]string // paths of volumes, by phase
	}{
		"that select the disks of both": {allNVMe(), atRules},
		"that select neither":           {serial(9), map[string]string{"Bound": atRules["Bound"]}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(e *env) {
				mounted := nvme(1)
				mounted.Users = []disk.User{{What: "mount", Where: "/var/lib/kubelet/x"}}
				e.disks.devices = []disk.BlockDevice{mounted, nvme(2)}
				for i, name := range []string{"a", "b"} {
					f := device(name)
					f.Identity, f.Device, f.Place, f.Bytes = nvme(i+1).Identity, nvme(i+1).Path, "dev:"+nvme(i+1).Number, nvme(i+1).Bytes
					e.disks.put(f)
				}
				e.start()
				for _, pv := range e.api.volumes() {
					pv.Status.Phase = corev1.VolumeAvailable
					if localpv.PathOf(&pv) == atFolder["Bound"] {
						pv.Status.Phase = corev1.VolumeBound
						pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "data", UID: "claim"}
					}
					if _, err := e.api.CoreV1().PersistentVolumes().Update(context.Background(), &pv, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				e.pass(10 * time.Second)
				e.disks.format(nvme(1).Identity, formatted)
				e.disks.write(nvme(1).Identity, "data of the claim")
				e.look()
				var link string
				expect := func(when string, want map[string]string) {
					t.Helper()
					paths := map[string]string{}
					for _, pv := range e.api.volumes() {
						paths[string(pv.Status.Phase)] = localpv.PathOf(&pv)
						if pv.Status.Phase == corev1.VolumeBound {
							link = pv.Spec.Local.Path
						}
					}
					if diff := cmp.Diff(want, paths); diff != "" {
						t.Errorf("volumes %s (-want +got):\n%s", when, diff)
					}
					if target := e.disks.linked()[link]; target != nvme(1).Path {
						t.Errorf("%s the link of the claim's volume leads to %q", when, target)
					}
				}
				expect("of the folder", atFolder)
				e.byRule(map[string]provisioner.Devices{"fast": test.rules})
				expect("of the rules", test.want)
				if slices.Contains(e.disks.unlinked, link) {
					t.Error("the link of the claim's volume was removed")
				}
				e.expect("a", "not reported")
				record, _, err := e.records.Get(nvme(1).Identity)
				if err != nil || record.HostPath != atRules["Bound"] || record.Key.Name != slotOf(1) {
					t.Errorf("the record is %+v (%v)", record, err)
				}

				e.config = e.provisioner.configuration()
				e.start()
				expect("after a restart", test.want)
				e.disks.format(nvme(1).Identity, disk.Superblock{})
				e.pass(fencePeriod)
				if target, linked := e.disks.linked()[link]; linked {
					t.Errorf("the link leads to %s, without the file system", target)
				}
				e.disks.format(nvme(1).Identity, formatted)
				e.pass(fencePeriod)
				expect("with the file system again", test.want)
				e.disks.cleaned()
				e.disks.mu.Lock()
				e.disks.devices[0].Users = nil
				e.disks.mu.Unlock()
				for _, pv := range e.api.volumes() {
					if pv.Status.Phase == corev1.VolumeBound {
						pv.Status.Phase = corev1.VolumeReleased
						if _, err := e.api.CoreV1().PersistentVolumes().Update(context.Background(), &pv, metav1.UpdateOptions{}); err != nil {
							t.Fatal(err)
						}
					}
				}
				e.pass(time.Minute)
				if diff := cmp.Diff([]string{slotOf(1)}, e.disks.cleaned()); diff != "" {
					t.Errorf("cleans (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestUnknownDevices: while devices cannot be listed, nothing is published or withdrawn, and the
// provisioner is not ready.
func TestUnknownDevices(t *testing.T) {
	t.Parallel()
	inBubble(t, func(e *env) {
		e.byRule(map[string]provisioner.Devices{"fast": allNVMe()})
		e.disks.devices = []disk.BlockDevice{nvme(1)}
		e.start()
		e.phase(corev1.VolumeAvailable)
		e.disks.mu.Lock()
		e.disks.noDevices = errors.New("no sysfs")
		e.disks.mu.Unlock()
		e.start()
		e.byRule(map[string]provisioner.Devices{"fast": {Include: []provisioner.DeviceRule{{Transport: "sata"}}}})
		if err := e.provisioner.CheckReads("fast"); err == nil {
			t.Error("the provisioner is ready")
		}
		if e.volume() == nil {
			t.Error("the volume was withdrawn")
		}
	})
}

// TestFoldersPrecedeRules: a disk to which an entry of a folder leads is not selected, nor is a new
// one while a folder cannot be read.
func TestFoldersPrecedeRules(t *testing.T) {
	t.Parallel()
	inBubble(t, func(e *env) {
		folder := e.config.Classes["fast"]
		e.byRule(map[string]provisioner.Devices{"slow": allNVMe()})
		e.config.Classes["fast"] = folder
		entry := fact("a")
		entry.Kind, entry.Identity, entry.Device = disk.Device, nvme(1).Identity, nvme(1).Path
		e.disks.put(entry)
		e.disks.devices = []disk.BlockDevice{nvme(1), nvme(2)}
		e.disks.trouble["fast"] = disk.Problemf(disk.Unreadable, "not mounted")
		e.start()
		e.expectSelected("while the folder cannot be read", "fast /dev/nvme1n1")
		e.disks.mu.Lock()
		delete(e.disks.trouble, "fast")
		e.disks.mu.Unlock()
		e.look()
		e.expectSelected("by the folder and the rules", "fast /dev/nvme1n1", "slow /dev/nvme2n1")
		e.disks.take("a")
		e.look()
		e.expectSelected("by the rules", "slow /dev/nvme1n1", "slow /dev/nvme2n1")
	})
}

// TestNothingSelected: the provisioner becomes ready at once when no rule selects a disk, although
// the class's folder does not exist before the devices are known.
func TestNothingSelected(t *testing.T) {
	t.Parallel()
	inBubble(t, func(e *env) {
		e.byRule(map[string]provisioner.Devices{"fast": allNVMe()})
		e.disks.trouble["fast"], e.disks.noDevices = disk.Problemf(disk.Unreadable, "no such directory"), errors.New("no sysfs")
		e.start()
		e.disks.mu.Lock()
		e.disks.noDevices = nil
		e.disks.mu.Unlock()
		e.look()
		if err := e.provisioner.CheckReads("fast"); err != nil {
			t.Error(err)
		}
	})
}

// TestMaxKeepsClaims: of more disks than max, those with claims stay.
func TestMaxKeepsClaims(t *testing.T) {
	t.Parallel()
	inBubble(t, func(e *env) {
		e.byRule(map[string]provisioner.Devices{"fast": allNVMe()})
		e.disks.devices = []disk.BlockDevice{nvme(1), nvme(2)}
		e.start()
		claimed := ""
		for _, pv := range e.api.volumes() {
			pv.Status.Phase = corev1.VolumeAvailable
			if localpv.PathOf(&pv) == "/dev/stowage/devices/fast/"+slotOf(2) {
				claimed = pv.Name
				pv.Status.Phase = corev1.VolumeBound
				pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "data", UID: "claim"}
			}
			if _, err := e.api.CoreV1().PersistentVolumes().Update(context.Background(), &pv, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		e.pass(10 * time.Second)
		one := allNVMe()
		one.Max = new(int32(1))
		e.byRule(map[string]provisioner.Devices{"fast": one})
		e.expectSelected("one at most", "fast /dev/nvme2n1")
		if pv := e.volume(); pv.Name != claimed || claimed == "" {
			t.Errorf("the volume is %s, want %s", pv.Name, claimed)
		}
		e.expect(slotOf(2), "Bound")
	})
}

// TestNodeSelector: disks are selected while the node has the labels, which are followed.
func TestNodeSelector(t *testing.T) {
	t.Parallel()
	inBubble(t, func(e *env) {
		devices := allNVMe()
		devices.NodeSelector = map[string]string{"disks": "yes"}
		e.byRule(map[string]provisioner.Devices{"fast": devices})
		e.disks.devices = []disk.BlockDevice{nvme(1)}
		e.start()
		e.expectSelected("without the label")
		label := func(labels map[string]string) {
			object, err := e.api.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(object.Labels, labels)
			if _, err := e.api.CoreV1().Nodes().Update(context.Background(), object, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			e.pass(2 * labelsPeriod)
		}
		label(map[string]string{"disks": "yes"})
		e.expectSelected("with the label", "fast /dev/nvme1n1")
		e.phase(corev1.VolumeAvailable)
		e.expect(slotOf(1), "Available")
		label(map[string]string{"disks": "no"})
		e.expectSelected("without it again")
		if e.volume() != nil {
			t.Error("the free volume was not withdrawn")
		}
	})
}
