// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
)

const (
	// workers act for slots at the same time, so that one whose disk or request hangs
	// does not hold up the others.
	workers = 4
	// A slot that cannot go on is tried again after retryFirst, then ever later.
	retryFirst, retryLast = time.Second, 2 * time.Minute
	// A disk that waits for somebody to empty it is looked at again after retryFirst,
	// then ever later: with patience if it is one that the agent has never published,
	// which may be anybody's, and sooner if its data was kept for whoever empties it now.
	dataRecheckLast, retainedRecheckLast = 30 * time.Minute, 30 * time.Second
	// defaultRecheck is Config.Recheck.
	defaultRecheck = 5 * time.Second
	// stopTimeout is how long Run waits for what does not heed its context: a read of a
	// disk that does not answer.
	stopTimeout = 5 * time.Second
)

// Agent is a node agent. Its methods are safe for concurrent use.
type Provisioner struct {
	Config
	volumes cache.SharedIndexInformer
	factory informers.SharedInformerFactory
	queue   workqueue.TypedRateLimitingInterface[string] // paths on the node
	waits   waits

	scanRequests   chan struct{} // asks for a scan
	watchRequests  chan struct{} // asks for new watches
	cleans         *cleans
	proofs         *proofs
	expects        *expectations
	status         *statusReporter
	health         health
	asking         asking
	tombstoneIndex tombstoneIndex
	foreignPVs     foreignPVs
	untainted      untainted

	mu       sync.Mutex
	settings *settings
	node     *localpv.Node
	scan_    scanResult
	foreign  map[string]string // names of volumes that are not ours, by path
	// accepted and granted are acknowledgements (disk.AcknowledgementOf) of data that may be
	// published, and that may be cleaned although its volume is gone.
	accepted, granted map[string]bool
	formerMachines    map[string]bool // machines that are this one, by an administrator's word
}

// New makes an agent. It does nothing until Run.
func New(config Config) (*Provisioner, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("make the node agent: %w", err)
	}
	if config.Recheck == 0 {
		config.Recheck = defaultRecheck
	}
	a := &Provisioner{
		Config:        config,
		factory:       informers.NewSharedInformerFactory(config.Client, 0),
		scanRequests:  make(chan struct{}, 1),
		watchRequests: make(chan struct{}, 1),
		expects:       newExpectations(),
		asking:        asking{stuck: map[string]bool{}},
		waits:         waits{known: map[string]*waiting{}},
		settings:      newSettings(config.Settings),
		scan_:         newScanResult(),
		foreign:       map[string]string{},
	}
	a.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "local_volumes"})
	a.cleans = newCleans(a)
	a.proofs = newProofs(a)
	a.status = newStatusReporter(a)
	if err := a.watchVolumes(); err != nil {
		return nil, err
	}
	return a, nil
}

// watchVolumes sets up the informers: of the node's own volumes, and of classes.
func (p *Provisioner) watchVolumes() error {
	own := informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = localpv.Selector(p.Node) })
	p.volumes = informers.NewSharedInformerFactoryWithOptions(p.Client, 0, own).Core().V1().PersistentVolumes().Informer()
	err := errors.Join(
		p.volumes.SetTransform(withoutManagedFields),
		p.volumes.AddIndexers(cache.Indexers{byPath: pathOfVolume, byIdentity: identityOfVolume}),
	)
	if err != nil {
		return fmt.Errorf("watch volumes: %w", err)
	}
	if _, err := p.volumes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.volumeChanged(o) },
		UpdateFunc: func(_, o any) { p.volumeChanged(o) },
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

// classChanged puts the slots of a StorageClass into the queue, if it is one of ours.
func (p *Provisioner) classChanged(object any) {
	class, ok := object.(*storagev1.StorageClass)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settings.classes[class.Name] == nil {
		return
	}
	for _, path := range p.pathsOf(class.Name) {
		p.queue.Add(path)
	}
	p.status.poke()
}

// Run publishes and cleans until ctx ends. Cleans that are under way are broken off,
// and resumed by the next agent. An error says why the agent could not begin.
func (p *Provisioner) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	if err := p.removeLinks(ctx); err != nil {
		return err
	}
	var group wait.Group
	ctx, cancel := context.WithCancel(ctx)
	stop := func() { // in this order: nothing is queued by what has ended
		cancel()
		p.queue.ShutDown()
		joined := make(chan struct{})
		go func() { defer close(joined); group.Wait(); p.cleans.wait(); p.proofs.wait(); p.factory.Shutdown() }()
		select {
		case <-joined:
		case <-time.After(stopTimeout):
			logger.Info("Ended while a disk did not answer")
		}
	}
	defer stop()
	p.factory.Start(ctx.Done())
	group.StartWithContext(ctx, func(ctx context.Context) { p.volumes.RunWithContext(ctx) })
	if err := p.waitReady(ctx); err != nil {
		return err
	}
	group.StartWithContext(ctx, p.watchDisks)
	group.StartWithContext(ctx, p.runScans)
	group.StartWithContext(ctx, p.status.run)
	for range workers {
		group.StartWithContext(ctx, p.work)
	}
	if pid := p.Records.Predecessor(); pid != 0 {
		logger.Info("An earlier provisioner was killed and cannot end because a disk does not answer; disks that it cleaned are left alone until it has ended", "pid", pid)
	}
	logger.V(2).Info("Began to publish local disks", logkeys.Node, klog.KRef("", p.Node))
	<-ctx.Done()
	return nil
}

// begin waits for all that decisions rest on.
func (p *Provisioner) waitReady(ctx context.Context) error {
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
	if err := p.findNode(ctx); err != nil {
		return err
	}
	p.health.synced.Store(true)
	return nil
}

// findCluster waits for the UID of namespace kube-system, which tells clusters apart.
func (p *Provisioner) findCluster(ctx context.Context) error {
	if p.Cluster != "" {
		return nil
	}
	return retryUntil(ctx, "Cannot publish before the cluster is known", func(ctx context.Context) error {
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

// findNode waits for the node's object, which has the hostname that volumes name.
func (p *Provisioner) findNode(ctx context.Context) error {
	return retryUntil(ctx, "Cannot publish before the node is known", p.refreshNode)
}

// until retries what the agent cannot begin without.
func retryUntil(ctx context.Context, failed string, find func(context.Context) error) error {
	backoff := wait.Backoff{Duration: retryFirst, Factor: 2, Steps: 10, Cap: time.Minute}
	for {
		err := find(ctx)
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).Error(err, failed)
		if !sleep(ctx, backoff.Step()) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// refreshNode reads the labels that volumes take from their node.
func (p *Provisioner) refreshNode(ctx context.Context) error {
	node, err := p.Client.CoreV1().Nodes().Get(ctx, p.Node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", p.Node, err)
	}
	hostname := node.Labels[corev1.LabelHostname]
	if hostname == "" {
		return fmt.Errorf("node %s has no label %s, by which its volumes would be found", p.Node, corev1.LabelHostname)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	labels := map[string]string{}
	for _, key := range p.settings.NodeLabelsForPV {
		if value, ok := node.Labels[key]; ok {
			labels[key] = value
		}
	}
	p.node = &localpv.Node{Name: p.Node, Hostname: hostname, Labels: labels}
	return nil
}

// work decides about and acts for one slot after the other.
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

// withoutManagedFields saves memory: nobody here asks who wrote what.
func withoutManagedFields(object any) (any, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && volume.ManagedFields != nil { // it may have been here before
		volume.ManagedFields = nil
	}
	return object, nil
}
