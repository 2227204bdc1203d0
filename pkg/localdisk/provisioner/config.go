// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/fsnotify/fsnotify"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
	"stowage.dev/stowage/pkg/localdisk/provisioner/clean"
	"stowage.dev/stowage/pkg/localdisk/provisioner/diskhealth"
	"stowage.dev/stowage/pkg/localdisk/provisioner/inventory"
	"stowage.dev/stowage/pkg/localdisk/provisioner/scan"
	"stowage.dev/stowage/pkg/localdisk/provisioner/status"
	"stowage.dev/stowage/pkg/metrics"
)

// Inspector reads one disk.
type Inspector interface {
	clean.Inspector
	// Inspect returns whether a disk holds data, and what, as a text that follows "holds". It is
	// quick: a device that seems to be blank is disk.ContentSampled. The byte at suspect,
	// unless that is negative, is read first.
	Inspect(ctx context.Context, fact disk.Fact, suspect int64) (disk.Content, string, error)
	// Root describes the root of a file system for Cleaner.Restore; nil for a device.
	Root(ctx context.Context, fact disk.Fact) (json.RawMessage, error)
}

// Reports is a client for LocalDiskReports; see diskreports.NewClient.
type Reports interface {
	status.Reports
	clean.Reports
}

// Tombstones lists LocalDiskTombstones; see diskreports.NewTombstoneClient.
type Tombstones interface {
	List(ctx context.Context, options metav1.ListOptions) (*stowage.LocalDiskTombstoneList, error)
}

// Fence keeps kubelet from devices whose content is not proven; see decide.Link.
type Fence interface {
	// ReadSuperblock reads which file system is on a device.
	ReadSuperblock(ctx context.Context, device disk.Fact) (disk.Superblock, error)
	// LinkTarget returns the target of a link in disk.LinkFolder, or the Place of the device that
	// is mounted for a path in disk.MountFolder; empty if there is neither.
	LinkTarget(link string) (string, error)
	// AddLink adds or replaces the link to a device. RemoveLink removes it, or detaches the mount,
	// if there is one.
	AddLink(link string, device disk.Fact) error
	RemoveLink(link string) error
	// Mount mounts the file system on a device at the path of a volume, in place of what is
	// mounted there. Mounted returns the paths that something is mounted for.
	Mount(ctx context.Context, v disk.Volume, device disk.Fact, format disk.Format) error
	Mounted() ([]string, error)
	// Unused returns whether a file system that clean.Maker has made holds data, and what.
	Unused(device disk.Fact, format disk.Format) (disk.Content, string, error)
	clean.Maker
	// LinkDevices makes links to devices, by name, the only entries of a folder below /dev.
	LinkDevices(folder string, devices map[string]string) error
}

// Config is the configuration of a Provisioner.
type Config struct {
	// Node is the name of the node that the provisioner runs on.
	Node string
	// Machine is the machine that identities of its disks name; see disk.Identity.
	Machine string
	// Client has the rights of manifests/provisioner/rbac.yaml.
	Client kubernetes.Interface
	// Reports writes the node's report; nil writes none, and reads no tombstones.
	Reports Reports
	// Tombstones lists the tombstones of all nodes.
	Tombstones Tombstones
	// Devices reads the node's block devices, which the rules of classes select.
	Devices inventory.Devices
	// Disks lists the node's disks, if the settings enable that; nil never does. KubeletDir is
	// kubelet's root directory on the node.
	Disks      inventory.Disks
	KubeletDir string
	// Health reads signs of failing disks; nil watches none.
	Health diskhealth.Reader
	// Events records events.
	Events events.EventRecorder

	Prober    scan.Prober
	Inspector Inspector
	Cleaner   clean.Cleaner
	Fence     Fence
	// Tickets are for cleaning Jobs; nil disables Jobs, also if the settings enable them.
	Tickets clean.Tickets
	// Records are the node's records of disks. They stay open while the provisioner runs.
	Records *diskrecord.Store

	// Cluster is the UID of namespace kube-system, which records contain; if it is empty, the
	// provisioner reads it from the API server.
	Cluster string

	// Settings are the initial settings; see Provisioner.Configure.
	Settings *provisioner.ProvisionerConfiguration
	// Recheck is the time between the scan that finds a disk missing or failing and the one that
	// confirms it; 0 is 5 s. decide.FaultScans times this is the longest time between two scans.
	Recheck time.Duration
}

func (c *Config) validate() error {
	switch {
	case c.Node == "":
		return errors.New("the node's name is not set")
	case c.Client == nil || c.Events == nil:
		return errors.New("there is no client or no event recorder")
	case c.Prober == nil || c.Inspector == nil || c.Cleaner == nil || c.Fence == nil || c.Records == nil:
		return errors.New("there is no prober, inspector, cleaner, fence or record store")
	case c.Reports != nil && c.Tombstones == nil:
		return errors.New("there is no reader of tombstones")
	case c.Devices == nil:
		return errors.New("there is no reader of block devices")
	case c.Settings == nil:
		return errors.New("there is no configuration")
	}
	return nil
}

const (
	// reloadPeriod is the time between two reads of the configuration without an event.
	reloadPeriod = time.Minute
	// refreshTimeout is how long a new configuration waits for the node's labels.
	refreshTimeout = 10 * time.Second
)

// Follow applies every new version of the configuration in a folder, until ctx ends. A
// version that is not valid is reported, and the last good one stays in force.
func (p *Provisioner) Follow(ctx context.Context, folder string) {
	logger := klog.FromContext(ctx)
	metrics.CountConfigAccepted(time.Now()) // the one that New was called with
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = watcher.Close() }()
		err = watcher.Add(folder)
	}
	if err != nil {
		logger.Error(fmt.Errorf("watch %s: %w", folder, err), "Failed to watch the configuration; reading it periodically", "period", reloadPeriod)
		watcher = &fsnotify.Watcher{}
	}
	for {
		p.reload(ctx, folder)
		timer := time.NewTimer(reloadPeriod)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case err := <-watcher.Errors:
			logger.V(4).Info("Missed events of the configuration", "err", err)
		case _, open := <-watcher.Events:
			if !open {
				watcher.Events = nil
			}
		}
		timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-time.After(scan.Delay): // one change causes several events
		}
	}
}

// reload reads the folder, and applies a configuration that is new and valid.
func (p *Provisioner) reload(ctx context.Context, folder string) {
	config, err := provisioner.DecodeFolder(folder)
	if err != nil {
		p.status.ConfigRejected(err)
		metrics.CountConfigRefused()
		klog.FromContext(ctx).Error(err, "Configuration not valid; keeping the last good one", "folder", folder)
		return
	}
	p.status.ConfigRejected(nil)
	if reflect.DeepEqual(config, p.current().ProvisionerConfiguration) {
		return
	}
	for _, warning := range config.Warnings() {
		klog.FromContext(ctx).Info("Configuration warning", "warning", warning)
	}
	p.Configure(ctx, config)
	metrics.CountConfigAccepted(time.Now())
	klog.FromContext(ctx).V(2).Info("Applied a new configuration", "folder", folder)
}

// Configure applies another configuration to everything that starts from now on. Running
// cleans keep the former one. Volumes of classes that it does not have stay.
func (p *Provisioner) Configure(ctx context.Context, config *provisioner.ProvisionerConfiguration) {
	p.mu.Lock()
	p.settings = newSettings(config)
	p.mu.Unlock()
	p.cleans.Resize(int(*config.MaxCleaning))
	p.cleans.RetryNow()
	p.formats.Resize(int(*config.MaxCleaning))
	p.proofs.Resize(int(*config.MaxBlankProofs))
	p.Prober.SetTimeout(config.ProbeTimeout.Duration)
	soon, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := p.refreshNode(soon); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to get the labels of the Node; volumes keep those of the former configuration")
	}
	p.enqueue("")
	p.scanner.Reconfigured()
}
