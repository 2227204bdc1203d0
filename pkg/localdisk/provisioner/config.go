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

	"stowage.dev/stowage/pkg/apis/provisioner"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
)

// Prober finds out what lies where, and says when to look again.
type Prober interface {
	// Scan looks into the folders. It reads no byte of any disk, and returns although
	// some of them may not answer.
	Scan(ctx context.Context, scan disk.Scan) disk.Scanned
	// Watch calls changed when there may be something new in the folders, until ctx
	// ends. It may be called from several goroutines, and may miss changes: Scan is
	// called from time to time anyway.
	Watch(ctx context.Context, folders []disk.Folder, changed func()) error
	// SetTimeout changes how long a folder or an entry of it may take to answer.
	SetTimeout(timeout time.Duration)
}

// Inspector looks at one disk, as closely as need be.
type Inspector interface {
	// Inspect says whether a disk holds data, and what, in words that follow "holds". It is
	// quick: a device that seems to be blank is disk.ContentSampled. The byte at suspect,
	// unless that is negative, is read first.
	Inspect(ctx context.Context, fact disk.Fact, suspect int64) (disk.Content, string, error)
	// Cleaned says whether a clean has left data on a disk that is offered in a mode, and
	// what. It proves nothing of a disk that was not cleaned.
	Cleaned(ctx context.Context, fact disk.Fact, mode disk.Mode) (disk.Content, string, error)
	// ProveBlank reads a device until it has read every byte or found one that is not zero,
	// which can take days, and calls progress after each few MiB. How far it came is
	// returned with an error too. disk.ErrBlankProofVoid: what request.From says does not
	// hold any more. With a complete proof it only checks that.
	ProveBlank(ctx context.Context, request disk.BlankProofRequest, progress func(disk.BlankProof) error) (disk.BlankProof, error)
	// Users says who uses a disk. The volume's own mount, where the disk is published,
	// is not among them. After an error the disk may be in use.
	Users(ctx context.Context, fact disk.Fact, volume string) ([]disk.User, error)
	// Root describes the root of a file system as a Cleaner will need it; nil for a
	// device.
	Root(ctx context.Context, fact disk.Fact) (json.RawMessage, error)
}

// Cleaner removes all data from a disk, here or elsewhere. It makes sure that the
// disk is the one of the request and that nobody else uses it, for as long as it
// writes. progress may be called often; after an error of it, and when ctx ends, the
// clean stops, to be resumed by another call with the last step.
type Cleaner interface {
	Clean(ctx context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error
	// Restore puts the root of a file system back as Inspector.Root described it; of a
	// device it does nothing. Clean has done so when it returns nil.
	Restore(ctx context.Context, fact disk.Fact, root json.RawMessage) error
}

// Fence keeps kubelet from devices whose content is not proven; see package fence.
type Fence interface {
	// ReadSuperblock reads which file system is on a device.
	ReadSuperblock(ctx context.Context, device disk.Fact) (disk.Superblock, error)
	// LinkTarget returns what a link of disk.LinkFolder leads to; empty if there is none.
	LinkTarget(link string) (string, error)
	// AddLink makes a link lead to a device, or replaces it; RemoveLink removes it, if it is
	// there.
	AddLink(link string, device disk.Fact) error
	RemoveLink(link string) error
}

// Config is all that an Agent needs.
type Config struct {
	// Node is the name of the node that the agent runs on.
	Node string
	// Machine is the machine that identities of its disks name; see disk.Identity.
	Machine string
	// Client may do what manifests/provisioner/rbac.yaml allows.
	Client kubernetes.Interface
	// Reports writes the node's report; nil writes none.
	Reports Reports
	// Events are recorded with it.
	Events events.EventRecorder

	Prober    Prober
	Inspector Inspector
	Cleaner   Cleaner
	Fence     Fence
	// Tickets are for cleaning Jobs; nil cleans without, whatever the settings say.
	Tickets Tickets
	// Records are the node's, and stay open for as long as the agent runs.
	Records *diskrecord.Store

	// Cluster is the UID of namespace kube-system, which records carry; empty has the
	// agent read it from the API server.
	Cluster string

	// Settings are what the agent begins with; see Agent.Configure.
	Settings *provisioner.Config
	// Recheck is how long after something has vanished, or has not answered well, the
	// agent looks again before it believes it; 0 is 5 s. It looks at the latest after
	// decide.FaultLooks times this.
	Recheck time.Duration
}

func (c *Config) validate() error {
	switch {
	case c.Node == "":
		return errors.New("the node's name is not set")
	case c.Client == nil || c.Events == nil:
		return errors.New("there is no client or no event recorder")
	case c.Prober == nil || c.Inspector == nil || c.Cleaner == nil || c.Fence == nil || c.Records == nil:
		return errors.New("there is nothing to look at disks, to clean them or to remember them with")
	case c.Settings == nil:
		return errors.New("there is no configuration")
	}
	return nil
}
