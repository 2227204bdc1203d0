// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
	"stowage.dev/stowage/pkg/localdisk/provisioner/clean"
	"stowage.dev/stowage/pkg/localdisk/provisioner/scan"
	"stowage.dev/stowage/pkg/localdisk/provisioner/status"
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

// Fence keeps kubelet from devices whose content is not proven; see package fence.
type Fence interface {
	// ReadSuperblock reads which file system is on a device.
	ReadSuperblock(ctx context.Context, device disk.Fact) (disk.Superblock, error)
	// LinkTarget returns the target of a link in disk.LinkFolder; empty if there is none.
	LinkTarget(link string) (string, error)
	// AddLink adds or replaces the link to a device; RemoveLink removes it, if it exists.
	AddLink(link string, device disk.Fact) error
	RemoveLink(link string) error
}

// Config is the configuration of a Provisioner.
type Config struct {
	// Node is the name of the node that the provisioner runs on.
	Node string
	// Machine is the machine that identities of its disks name; see disk.Identity.
	Machine string
	// Client has the rights of manifests/provisioner/rbac.yaml.
	Client kubernetes.Interface
	// Reports writes the node's report; nil writes none.
	Reports Reports
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
	case c.Settings == nil:
		return errors.New("there is no configuration")
	}
	return nil
}
