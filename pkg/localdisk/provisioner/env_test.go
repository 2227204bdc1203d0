// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
)

// folder is the discovery directory of class "fast"; node and cluster are the provisioner's.
const folder, node, cluster = "/mnt/fast", "n1", "cluster-1"

// env is a provisioner with fakes, in a synctest bubble.
type env struct {
	t           testing.TB
	api         *api
	disks       *disks
	signs       *signs      // nil: the health of disks is not watched
	localDisks  *localDisks // nil: disks are not listed
	events      *recorder
	reports     *reports
	tombstones  *tombstones
	records     *diskrecord.Store
	config      *provisioner.ProvisionerConfiguration
	tickets     *tickets
	machine     string
	provisioner *Provisioner
	stop        func()
}

// inBubble runs a test in a bubble. The provisioner is not running yet.
func inBubble(t *testing.T, test func(e *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		records, err := diskrecord.Open(t.TempDir(), "/proc")
		if err != nil {
			t.Fatal(err)
		}
		e := &env{
			t: t, disks: newDisks(), events: &recorder{}, reports: newReports(), tombstones: &tombstones{}, records: records, tickets: newTickets(),
			config: &provisioner.ProvisionerConfiguration{
				MinResyncPeriod: duration(5 * time.Minute), MaxCleaning: new(int32(2)), MaxBlankProofs: new(int32(2)), BlankProofRate: resource.NewQuantity(1<<30, resource.BinarySI),
				DiskHealth:   provisioner.DiskHealth{Enabled: new(true), HungAfter: duration(15 * time.Second), DegradedErrors: new(int32(1)), FailingErrors: new(int32(10))},
				ProbeTimeout: duration(10 * time.Second), OrphanGracePeriod: duration(10 * time.Minute),
				Classes: map[string]provisioner.Class{"fast": {
					HostDir: folder, MountDir: folder, VolumeMode: corev1.PersistentVolumeFilesystem, NamePattern: "*",
					BlockCleanerCommand: []string{"fs-reset"}, CleanTimeout: duration(7 * 24 * time.Hour),
				}},
			},
		}
		e.api = newAPI(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: cluster}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "first", Labels: map[string]string{corev1.LabelHostname: node}}},
			class("fast", corev1.PersistentVolumeReclaimDelete),
		)
		defer func() {
			e.disks.free()
			if e.stop != nil {
				e.stop()
			}
			if err := records.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(e)
	})
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// configure changes class "fast" of a configuration.
func configure(config *provisioner.ProvisionerConfiguration, change func(*provisioner.Class)) {
	class := config.Classes["fast"]
	change(&class)
	config.Classes["fast"] = class
}

func class(name string, policy corev1.PersistentVolumeReclaimPolicy) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, ReclaimPolicy: &policy, VolumeBindingMode: &mode}
}

// start runs a new provisioner, as after a restart.
func (e *env) start() {
	e.t.Helper()
	if e.stop != nil {
		e.stop()
	}
	provisioner := e.make()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- provisioner.Run(ctx) }()
	e.provisioner = provisioner
	e.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			e.t.Errorf("the provisioner ended with %v", err)
		}
		e.stop = nil
	}
	e.pass(2 * time.Second)
}

// startBound runs a new provisioner, and binds a claim to the volume that it publishes.
func (e *env) startBound() {
	e.t.Helper()
	e.start()
	e.phase(corev1.VolumeAvailable)
	e.phase(corev1.VolumeBound)
}

// make returns a provisioner that does not run.
func (e *env) make() *Provisioner {
	e.t.Helper()
	config := Config{
		Node: node, Machine: e.machine, Client: e.api, Reports: e.reports, Tombstones: e.tombstones, Events: e.events, Prober: e.disks, Inspector: e.disks, Cleaner: e.disks, Fence: e.disks, Devices: e.disks,
		Records: e.records, Settings: e.config, Tickets: e.tickets,
	}
	if e.signs != nil {
		config.Health = e.signs
	}
	if e.localDisks != nil {
		config.Disks = e.localDisks
	}
	provisioner, err := New(config)
	if err != nil {
		e.t.Fatal(err)
	}
	return provisioner
}

func (e *env) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the bubble's time
	synctest.Wait()
}

// look requests a scan, and waits for its effects.
func (e *env) look() {
	e.provisioner.scanner.Request()
	e.pass(3 * time.Second)
}

// volume returns the only volume; nil if there is none.
func (e *env) volume() *corev1.PersistentVolume {
	e.t.Helper()
	all := e.api.volumes()
	if len(all) > 1 {
		e.t.Fatalf("%d volumes, want one at most", len(all))
	}
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// phase sets the phase of the only volume, as the PersistentVolume controller does.
func (e *env) phase(phase corev1.PersistentVolumePhase) {
	e.t.Helper()
	e.change(func(pv *corev1.PersistentVolume) {
		pv.Status.Phase = phase
		if phase == corev1.VolumeBound {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "data", UID: "claim"}
		}
	})
}

// change updates the only volume as another client does.
func (e *env) change(change func(*corev1.PersistentVolume)) {
	e.t.Helper()
	pv := e.volume()
	if pv == nil {
		e.t.Fatal("there is no volume")
	}
	change(pv)
	if _, err := e.api.CoreV1().PersistentVolumes().Update(context.Background(), pv, metav1.UpdateOptions{}); err != nil {
		e.t.Fatal(err)
	}
	e.pass(3 * time.Second)
}

// remove deletes the only volume, as an administrator does.
func (e *env) remove() {
	e.t.Helper()
	if err := e.api.CoreV1().PersistentVolumes().Delete(context.Background(), e.volume().Name, metav1.DeleteOptions{}); err != nil {
		e.t.Fatal(err)
	}
	e.pass(3 * time.Second)
}

// reason returns the state and the reason of a slot in the report.
func (e *env) reason(name string) string {
	for _, entry := range e.provisioner.status.Entries() {
		if entry.Name == name {
			if entry.Reason == "" {
				return string(entry.State)
			}
			return fmt.Sprintf("%s: %s", entry.State, entry.Reason)
		}
	}
	return "not reported"
}

func (e *env) expect(name, want string) {
	e.t.Helper()
	if got := e.reason(name); got != want {
		e.t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// recorder records events as "<type> <reason>: <note>".
type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, kind+" "+reason+": "+fmt.Sprintf(note, args...))
}

// take returns the events since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// fact is a good disk.
func fact(name string) disk.Fact {
	return disk.Fact{
		Key: disk.Key{Class: "fast", Name: name}, HostPath: folder + "/" + name, Path: folder + "/" + name, Kind: disk.Mount,
		FilesystemType: "ext4", Identity: disk.Identity("fs:" + name + ":/"), Place: "fs:8:" + name, Bytes: 1 << 30,
		Attachment: "boot1/mount:1",
	}
}
