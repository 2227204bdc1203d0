// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live keeps a snapshot of a cluster up to date by watches, with the rights of a user. It only reads.
package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// ErrConnecting is the error of a Connection until the API server has answered, or has failed to.
var ErrConnecting = errors.New("connecting to the API server")

// Config configures New.
type Config struct {
	// REST connects to the API server, with the rights of the user.
	REST *rest.Config
	// Namespace is watched alone if the user may not list the objects of all namespaces.
	Namespace string
	// Queries are what is watched.
	Queries []snapshot.Query
}

// Connection is the state of the connection to the API server.
type Connection struct {
	// Err is why changes may be missing; nil if all watches stand. What the user may not read is a gap of the
	// snapshot, and no error.
	Err error
	// Since is when Err became nil, or ceased to be nil.
	Since time.Time
	// LastSeen is when the API server last answered a request or sent an event.
	LastSeen time.Time
}

// Cluster is a snapshot of a cluster that is kept up to date. It is safe for concurrent use.
type Cluster struct {
	rest     *rest.Config
	watchers []*watcher
	// changed has a value if the objects or the connection changed, reconnected if the connection was lost and found.
	changed, reconnected chan struct{}

	// mu guards what follows, and the states of the watchers.
	mu         sync.Mutex
	connection Connection
	last       *snapshot.Snapshot
	outdated   bool // last
	server     *version.Info
	serverRead bool
	serverErr  error
}

// New returns a cluster that is empty until Run runs.
func New(c Config) (*Cluster, error) {
	config := rest.CopyConfig(c.REST)
	config.Timeout = 0 // it would end watches
	clients, err := snapshot.NewClients(config, c.Queries...)
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{
		rest: config, changed: make(chan struct{}, 1), reconnected: make(chan struct{}, 1),
		connection: Connection{Err: ErrConnecting, Since: time.Now()}, outdated: true, serverErr: ErrConnecting,
	}
	for i, q := range c.Queries {
		w := &watcher{cluster: cluster, client: clients[i], query: q, err: ErrConnecting}
		w.narrow, w.canNarrow = q.Within(c.Namespace)
		cluster.watchers = append(cluster.watchers, w)
	}
	return cluster, nil
}

// Run watches until ctx is done, and returns when all of its goroutines have ended. It is called once, and always returns
// nil: what fails is retried, and is the error of the Connection meanwhile.
func (c *Cluster) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { c.readVersions(ctx) })
	for _, w := range c.watchers {
		running.Go(func() { w.run(ctx) })
	}
	running.Wait()
	return nil
}

// Snapshot returns the objects as they are now; nil until all queries were answered once. It is not changed
// afterwards. While no object changes, the same one is returned. Its time is when it was made, or when the connection
// was lost, if it was made without one.
func (c *Cluster) Snapshot() *snapshot.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.outdated || !c.serverRead {
		return c.last
	}
	parts := make([]snapshot.Part, 0, len(c.watchers))
	for _, w := range c.watchers {
		if w.objects == nil {
			return nil
		}
		parts = append(parts, w.newestPart())
	}
	at := time.Now()
	if c.connection.Err != nil {
		at = c.connection.Since
	}
	c.last, c.outdated = snapshot.Assemble(at, c.server, parts...), false
	return c.last
}

// Changed returns a channel that has a value after objects or the connection changed. Changes are coalesced, so it is
// for one consumer.
func (c *Cluster) Changed() <-chan struct{} { return c.changed }

// Connection returns the state of the connection.
func (c *Cluster) Connection() Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connection
}

// signal sends a value to a channel that has a capacity of one.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// readVersions reads the version of the API server, and again after the connection was lost.
func (c *Cluster) readVersions(ctx context.Context) {
	delay := retries()
	for {
		info, err := snapshot.ServerVersion(ctx, c.rest)
		if ctx.Err() != nil {
			return
		}
		c.versionRead(info, err)
		if err != nil {
			Pause(ctx, delay())
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-c.reconnected:
		}
	}
}

func (c *Cluster) versionRead(info *version.Info, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.serverErr = describe(c.rest.Host, err)
		c.connectionChanged()
		return
	}
	if !c.serverRead || (info == nil) != (c.server == nil) || info != nil && *info != *c.server {
		c.server, c.serverRead, c.outdated = info, true, true
		signal(c.changed)
	}
	c.serverErr = nil
	c.seen()
	c.connectionChanged()
}

// seen records that the API server sent something. The caller holds the lock.
func (c *Cluster) seen() { c.connection.LastSeen = time.Now() }

// connectionChanged derives the state of the connection from those of the watchers. The caller holds the lock.
func (c *Cluster) connectionChanged() {
	err := c.serverErr
	for _, w := range c.watchers {
		if w.err != nil && (err == nil || errors.Is(err, ErrConnecting)) {
			err = w.err
		}
	}
	before := c.connection.Err
	switch {
	case before == nil && err == nil, before != nil && err != nil && before.Error() == err.Error():
		return
	case before == nil || err == nil:
		c.connection.Since = time.Now()
	}
	c.connection.Err = err
	if err == nil && !errors.Is(before, ErrConnecting) {
		signal(c.reconnected)
	}
	signal(c.changed)
}
