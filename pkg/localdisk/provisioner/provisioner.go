// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioner is the local provisioner: it publishes a node's local disks as
// PersistentVolumes, and cleans them when the volumes are released.
//
// A path below a discovery directory is a slot. Every event of a slot (its disk is attached
// or removed, its volume changes, a clean ends, the configuration changes) enqueues its path.
// Provisioner.process, called by a worker, reads from top to bottom: it gathers the state of the
// path (gather.go), decides with package decide and answers the questions of the decision
// (questions.go), performs one action (pv_writes.go, publish.go), and enqueues the path again until
// there is nothing to do (process.go).
//
// Package scan scans the discovery directories, package clean runs what takes long, package
// status writes the report, events and metrics, package inventory lists the node's disks,
// package diskhealth watches their health. pathTable has the state of every path, pvCache is
// the informer of the node's volumes.
//
// Decisions are based on the informer, which may lag. A path is not decided on until the
// informer shows the provisioner's own writes (paths.go), and before data is destroyed the API
// server is asked.
//
// The order of writes protects data: a record is Published before the volume exists, Cleaning
// before the first byte is changed, and Clean after the last; only then is the volume's
// finalizer removed. The provisioner may be killed between any two writes.
package provisioner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/localdisk/provisioner/clean"
	"stowage.dev/stowage/pkg/localdisk/provisioner/diskhealth"
	"stowage.dev/stowage/pkg/localdisk/provisioner/inventory"
	"stowage.dev/stowage/pkg/localdisk/provisioner/scan"
	"stowage.dev/stowage/pkg/localdisk/provisioner/status"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
)

const (
	// workers is how many paths are processed at a time, so that a disk or request that hangs
	// does not hold up the others.
	workers = 4
	// Backoff of a path that failed.
	retryFirst, retryLast = time.Second, 2 * time.Minute
	// Backoff limits of a disk that has to be emptied by an administrator: long if the
	// provisioner never published it, short if its data was retained.
	dataRecheckLast, retainedRecheckLast = 30 * time.Minute, 30 * time.Second
	// defaultRecheck is the default of Config.Recheck.
	defaultRecheck = 5 * time.Second
	// stopTimeout is how long Run waits for goroutines that read a disk which does not answer.
	stopTimeout = 5 * time.Second
)

// Provisioner publishes and cleans the local disks of a node. Its methods are safe for
// concurrent use.
type Provisioner struct {
	Config
	volumes *pvCache
	factory informers.SharedInformerFactory
	queue   loop.Queue // paths on the node

	paths          *pathTable
	scanner        *scan.Scanner
	cleans         *clean.Cleans
	proofs         *clean.Proofs
	formats        *clean.Formats
	status         *status.Reporter
	inventory      *inventory.Lister   // nil if there is no client for it
	diskHealth     *diskhealth.Monitor // nil if nothing reads signs
	health         health
	tombstoneIndex tombstoneIndex
	foreignPVs     foreignPVs
	// linked are the links of the classes that select by rules, by name. Only Scanned uses it.
	linked map[string]map[string]string

	mu       sync.Mutex
	settings *settings
	node     *localpv.Node
	// accepted and granted are acknowledgements (disk.AcknowledgementOf) of data that may be
	// published, and that may be cleaned although its volume is gone.
	accepted, granted map[string]bool
	formerMachines    map[string]bool   // machines that an administrator declared to be this one
	labels            map[string]string // of the Node
	// chosen are the slots whose disks the rules of classes select.
	chosen map[disk.Key]bool
}

// New returns a provisioner that Run starts.
func New(config Config) (*Provisioner, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("make the provisioner: %w", err)
	}
	if config.Recheck == 0 {
		config.Recheck = defaultRecheck
	}
	p := &Provisioner{
		Config:   config,
		factory:  informers.NewSharedInformerFactory(config.Client, 0),
		paths:    newPathTable(),
		settings: newSettings(config.Settings),
		queue:    loop.NewQueue("local_volumes", retryFirst, retryLast),
	}
	if err := p.addHandlers(); err != nil {
		return nil, err
	}
	config = p.Config
	p.scanner = scan.New(config.Prober, p, config.Recheck)
	p.status = status.New(status.Config{
		Node: config.Node, Client: config.Client, Reports: config.Reports, Events: config.Events, Paths: p.paths, Settings: p.configuration, Cluster: p.clusterUID,
		Provisioner: p, Records: config.Records, Volume: p.volumes.get, Classes: p.factory.Storage().V1().StorageClasses().Lister(),
	})
	longRunning := clean.Config{
		Node: config.Node, Cluster: p.clusterUID, Settings: p.configuration, Inspector: config.Inspector, Cleaner: config.Cleaner, Maker: config.Fence, Checks: p, Tickets: config.Tickets,
		Reports: config.Reports, Records: config.Records, Attached: p.paths.identities, Queue: p.queue, Status: p.status,
	}
	p.cleans, p.proofs, p.formats = clean.NewCleans(longRunning), clean.NewProofs(longRunning), clean.NewFormats(longRunning)
	p.status.Follow(p.cleans, p.proofs)
	if config.Health != nil {
		p.diskHealth = diskhealth.New(diskhealth.Config{
			Reader: config.Health, Records: config.Records, Targets: p.healthTargets, Changed: p.healthChanged,
			Settings: func() provisioner.DiskHealth { return p.configuration().DiskHealth },
		})
	}
	if config.Disks != nil {
		p.inventory = inventory.New(inventory.Config{
			Node: config.Node, KubeletDir: config.KubeletDir, Devices: config.Devices, Disks: config.Disks, Slots: config.Records, Owner: p.nodeReference, Health: p.healthOf,
			Enabled: func() bool { return p.configuration().ListDisks },
		})
	}
	return p, nil
}

// nodeReference returns the reference to the Node for objects that are deleted with it.
func (p *Provisioner) nodeReference(ctx context.Context) (metav1.OwnerReference, error) {
	node, err := p.Client.CoreV1().Nodes().Get(ctx, p.Node, metav1.GetOptions{})
	if err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("get node %s: %w", p.Node, err)
	}
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}, nil
}

// configuration returns the configuration in force.
func (p *Provisioner) configuration() *provisioner.ProvisionerConfiguration {
	return p.current().ProvisionerConfiguration
}

// clusterUID returns the UID of namespace kube-system, which Run finds before paths are decided on.
func (p *Provisioner) clusterUID() string { return p.Cluster }

// addHandlers sets up the informers of the node's volumes and of StorageClasses.
func (p *Provisioner) addHandlers() error {
	var err error
	if p.volumes, err = newPVCache(p.Client, p.Node); err != nil {
		return fmt.Errorf("watch volumes: %w", err)
	}
	if _, err := p.volumes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { p.volumeChanged(o) },
		UpdateFunc: func(before, o any) {
			if at := pathOf(before); at != pathOf(o) {
				p.queue.Add(at)
			}
			p.volumeChanged(o)
		},
		DeleteFunc: func(o any) { p.volumeGone(o) },
	}); err != nil {
		return fmt.Errorf("watch volumes: %w", err)
	}
	classes := p.factory.Storage().V1().StorageClasses().Informer()
	_, err = classes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.classChanged(o) },
		UpdateFunc: func(_, o any) { p.classChanged(o) },
	})
	if err != nil {
		return fmt.Errorf("watch storage classes: %w", err)
	}
	return nil
}

func (p *Provisioner) volumeChanged(object any) {
	if volume, ok := asVolume(object); ok {
		p.paths.shown(volume)
	}
	p.queue.Add(pathOf(object))
}

func (p *Provisioner) volumeGone(object any) {
	if volume, ok := asVolume(object); ok {
		p.paths.gone(volume)
		p.removeLinkOf(volume)
	}
	p.queue.Add(pathOf(object))
	p.scanner.Request() // its disk may be at another path, and may now be published there
}

// removeLinkOf removes the link or mount of a volume that does not exist any more. Such a volume has a
// link only if its finalizer was removed by hand.
func (p *Provisioner) removeLinkOf(volume *corev1.PersistentVolume) {
	v, ours := p.volumes.read(p.current(), volume)
	if !ours || v.Link == "" {
		return
	}
	if err := p.removeLinkAt(v.Link); err != nil {
		utilruntime.HandleError(fmt.Errorf("remove the link of the deleted volume %s: %w", v.Name, err))
	}
}

// classChanged enqueues the paths of a StorageClass that is configured.
func (p *Provisioner) classChanged(object any) {
	if class, ok := object.(*storagev1.StorageClass); ok && p.current().class(class.Name) != nil {
		p.enqueue(class.Name)
		p.status.Changed()
	}
}

// Run publishes and cleans until ctx ends. Cleans that are running are interrupted, and
// resumed by the next provisioner. It returns an error if the provisioner could not start.
func (p *Provisioner) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	if err := p.removeLinks(ctx); err != nil {
		return err
	}
	var group wait.Group
	ctx, cancel := context.WithCancel(ctx)
	stop := func() { // in this order: nothing that has ended enqueues
		cancel()
		p.queue.ShutDown()
		joined := make(chan struct{})
		go func() {
			defer close(joined)
			group.Wait()
			p.cleans.Wait()
			p.proofs.Wait()
			p.formats.Wait()
			p.factory.Shutdown()
		}()
		select {
		case <-joined:
		case <-time.After(stopTimeout):
			logger.Info("Stopped without waiting for a disk that does not answer")
		}
	}
	defer stop()
	p.factory.Start(ctx.Done())
	group.StartWithContext(ctx, func(ctx context.Context) { p.volumes.RunWithContext(ctx) })
	if err := p.waitForCaches(ctx); err != nil {
		return err
	}
	if err := p.detachLeft(ctx); err != nil { // these disks stay in use until the next start
		logger.Error(err, "Failed to detach the mounts of volumes that do not exist any more")
	}
	group.StartWithContext(ctx, p.scanner.Watch)
	group.StartWithContext(ctx, p.scanner.Run)
	group.StartWithContext(ctx, p.status.Run)
	group.StartWithContext(ctx, p.followLabels)
	if p.inventory != nil {
		group.StartWithContext(ctx, p.inventory.Run)
	}
	if p.diskHealth != nil {
		group.StartWithContext(ctx, p.diskHealth.Run)
	}
	for range workers {
		group.StartWithContext(ctx, p.work)
	}
	if pid := p.Records.Predecessor(); pid != 0 {
		logger.Info("An earlier provisioner was killed and cannot end because a disk does not answer; disks that it cleaned are not touched until it has ended", "pid", pid)
	}
	logger.V(2).Info("Started to publish local disks", logkeys.Node, klog.KRef("", p.Node))
	<-ctx.Done()
	return nil
}

// waitForCaches waits for everything that decisions need.
func (p *Provisioner) waitForCaches(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), p.volumes.HasSynced) {
		return fmt.Errorf("list the volumes of node %s: %w", p.Node, context.Cause(ctx))
	}
	for kind, synced := range p.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("list %s: %w", kind, context.Cause(ctx))
		}
	}
	if err := p.findCluster(ctx); err != nil {
		return err
	}
	// The Node has the hostname that volumes require.
	if err := retryUntil(ctx, "Failed to get the Node; retrying", p.refreshNode); err != nil {
		return err
	}
	p.health.synced.Store(true)
	return nil
}

// findCluster waits for the UID of namespace kube-system, which identifies the cluster.
func (p *Provisioner) findCluster(ctx context.Context) error {
	if p.Cluster != "" {
		return nil
	}
	return retryUntil(ctx, "Failed to get the UID of the cluster; retrying", func(ctx context.Context) error {
		namespace, err := p.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get namespace %s: %w", metav1.NamespaceSystem, err)
		}
		if namespace.UID == "" {
			return fmt.Errorf("namespace %s has no UID", metav1.NamespaceSystem)
		}
		p.Cluster = string(namespace.UID)
		return nil
	})
}

// retryUntil calls find until it succeeds, with backoff.
func retryUntil(ctx context.Context, failed string, find func(context.Context) error) error {
	backoff := wait.Backoff{Duration: retryFirst, Factor: 2, Steps: 10, Cap: time.Minute}
	for {
		err := find(ctx)
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).Error(err, failed)
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(backoff.Step()):
		}
	}
}

// refreshNode reads the labels of the Node that its volumes get.
func (p *Provisioner) refreshNode(ctx context.Context) error {
	node, err := p.Client.CoreV1().Nodes().Get(ctx, p.Node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", p.Node, err)
	}
	hostname := node.Labels[corev1.LabelHostname]
	if hostname == "" {
		return fmt.Errorf("node %s has no label %s, which the node affinity of its volumes requires", p.Node, corev1.LabelHostname)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	labels := map[string]string{}
	for _, key := range p.settings.NodeLabelsForPV {
		if value, ok := node.Labels[key]; ok {
			labels[key] = value
		}
	}
	p.node, p.labels = &localpv.Node{Name: p.Node, Hostname: hostname, Labels: labels}, node.Labels
	return nil
}

// work processes one path after the other.
func (p *Provisioner) work(ctx context.Context) {
	for {
		path, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		p.process(ctx, path)
		p.queue.Done(path)
	}
}

// Heartbeats renews the node's Lease until ctx ends.
func (p *Provisioner) Heartbeats(ctx context.Context) { p.status.Heartbeats(ctx) }

// removeLinks removes the links of all volumes that the node has a record of: the devices were
// not watched while the provisioner was stopped. A link is added again after its device was
// verified.
func (p *Provisioner) removeLinks(ctx context.Context) error {
	var failed error
	for _, record := range p.Records.All() {
		if record.Volume == "" || record.Kind == disk.Mount || record.Kind == disk.Directory {
			continue
		}
		if err := p.Fence.RemoveLink(localpv.LinkPath(record.Key.Class, record.Volume)); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return fmt.Errorf("remove the links of the former provisioner: %w", failed)
	}
	klog.FromContext(ctx).V(4).Info("Removed unverified links", "folder", disk.LinkFolder)
	return nil
}

// detachLeft detaches the mounts of volumes that do not exist any more. Those of others are kept,
// since a file system that is mounted is not exchanged, and decided on with their slots. So are
// those of other provisioners on the machine, which are in classes that are neither configured nor
// recorded here.
func (p *Provisioner) detachLeft(ctx context.Context) error {
	mounted, err := p.Fence.Mounted()
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, object := range p.volumes.GetStore().List() {
		if v, ours := p.volumes.read(p.current(), object); ours {
			kept[v.Link] = true
		}
	}
	recorded := map[string]bool{}
	for _, record := range p.Records.All() {
		recorded[record.Key.Class] = true
	}
	var failed error
	for _, path := range mounted {
		class, _, _ := strings.Cut(strings.TrimPrefix(path, disk.MountFolder+"/"), "/")
		if kept[path] || !recorded[class] && p.current().class(class) == nil {
			continue
		}
		klog.FromContext(ctx).Info("Detaching the mount of a volume that does not exist any more", "link", path)
		failed = errors.Join(failed, p.removeLinkAt(path))
	}
	return failed
}
