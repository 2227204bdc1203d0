// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page serves a page that shows the storage of a cluster and the pods that wait for it, and answers questions
// about them. It only reads. It serves only the user who started it: it listens on the loopback interface, and a
// token that is valid once is exchanged for a session.
package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/live"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// Source is a cluster that changes. Its methods are called concurrently.
type Source interface {
	// Snapshot returns the cluster; nil until it is complete. It is the same one while nothing changes.
	Snapshot() *snapshot.Snapshot
	// Changed has a value after a change of the snapshot or the connection. Changes are coalesced.
	Changed() <-chan struct{}
	// Connection returns the state of the connection to the cluster.
	Connection() live.Connection
}

// Answers answers questions about a snapshot. Its methods are called concurrently.
type Answers interface {
	// Why returns a PodReport or a StorageReport. The kind is one of pod, pvc, pv, disk and node. The error of an
	// object that does not exist is a NotFoundError.
	Why(ctx context.Context, s *snapshot.Snapshot, object v1alpha1.Reference) (any, error)
	// Pods returns a function that returns why a pod waits. Calls of one function are not concurrent, and end before ctx.
	Pods(ctx context.Context, s *snapshot.Snapshot) func(snapshot.Name) (*v1alpha1.PodReport, error)
	// Fit returns how many replicas would be placed.
	Fit(ctx context.Context, s *snapshot.Snapshot, q FitQuestion) (*v1alpha1.Fit, error)
}

// FitQuestion is what is to be placed, as the flags of kubectl stowage fit have it. An error about a field names it.
type FitQuestion struct {
	Claims, Replicas, Namespace string
	OnePerNode                  bool
}

// NotFoundError is the error of an object that does not exist.
type NotFoundError string

// Error returns one line.
func (e NotFoundError) Error() string { return string(e) }

// Storage is what the page shows of a snapshot.
type Storage struct {
	Summary
	// Nodes are all nodes, and those that only disks name.
	Nodes []v1alpha1.StorageMapPlace
	Disks []v1alpha1.StorageMapDisk
	// WaitingPods are sorted, the oldest first.
	WaitingPods []v1alpha1.WaitingPod
	// Unseen is what could not be read.
	Unseen []string
}

// Summary is the sums of a cluster.
type Summary struct {
	// Classes are the sums by class.
	Classes []v1alpha1.StorageMapRow `json:"classes"`
	Total   v1alpha1.StorageMapRow   `json:"total"`
	// NetworkVolumes are volumes that all nodes can use, by class.
	NetworkVolumes []v1alpha1.StorageMapNetwork `json:"networkVolumes"`
	// Capacities are what CSI drivers can provision, by class.
	Capacities []v1alpha1.StorageMapCapacity `json:"capacities"`
}

// Config configures New.
type Config struct {
	// Listener accepts connections. Listen returns one.
	Listener net.Listener
	Source   Source
	Answers  Answers
	// Map returns the storage of a snapshot.
	Map func(*snapshot.Snapshot) *Storage
	// Cluster is the name of the cluster. From is the file that is shown instead of a cluster; empty for none.
	Cluster, From string
	// Announce is called with an address that opens the page: once, and after each use with the next one.
	Announce func(address string)
}

// Bounds of the server. An answer of fit or why can take all of a core.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 2 * time.Second
	maxHeader     = 16 << 10
	maxQuestions  = 2
)

// Server serves the page.
type Server struct {
	Config
	access    *access
	board     *board
	waiting   *waiting
	questions chan struct{} // has a value for each question that is being answered

	// last is the snapshot that the board shows. Only follow uses it.
	last   *snapshot.Snapshot
	unseen []string
	nodes  int
}

// Listen listens on a port of the loopback interface; 0 is any that is free.
func Listen(ctx context.Context, port int) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// New returns a server. Its listener is closed when Run ends.
func New(c Config) *Server {
	s := &Server{Config: c, board: newBoard(), questions: make(chan struct{}, maxQuestions)}
	s.access = newAccess(c.Listener.Addr())
	s.waiting = newWaiting(s.board, c.Answers)
	return s
}

// Run serves until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog:    log.New(io.Discard, "", 0), // the terminal is for addresses
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	group.Go(func() error { return s.follow(ctx) })
	group.Go(func() error { return s.waiting.run(ctx) })
	group.Go(func() error {
		if err := server.Serve(s.Listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(stopping) != nil {
			_ = server.Close() // the connections of browsers that do not read
		}
		return nil
	})
	group.Go(func() error { return s.announce(ctx) })
	return group.Wait()
}

// announce announces each address until ctx is done. Requests do not wait for a terminal that is stopped.
func (s *Server) announce(ctx context.Context) error {
	for {
		s.Announce(s.access.address())
		select {
		case <-ctx.Done():
			return nil
		case <-s.access.renewed:
		}
	}
}

// handler returns what is served.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { asset(w, "index.html") })
	mux.HandleFunc("/assets/{name}", func(w http.ResponseWriter, r *http.Request) { asset(w, r.PathValue("name")) })
	mux.HandleFunc("/events", s.events)
	mux.HandleFunc("/why", s.why)
	mux.HandleFunc("/fit", s.fit)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusNotFound, "There is no such page.")
	})
	return s.access.guard(mux)
}

// followPause is the least time between two maps: changes come in bursts.
const followPause = 100 * time.Millisecond

// follow shows the source until ctx is done.
func (s *Server) follow(ctx context.Context) error {
	for {
		begun := time.Now()
		s.update()
		if !live.Pause(ctx, max(followPause, 2*time.Since(begun))) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Source.Changed():
		}
	}
}

// update shows the source as it is now.
func (s *Server) update() {
	if now := s.Source.Snapshot(); now != nil && now != s.last {
		storage := s.Map(now)
		s.last, s.unseen, s.nodes = now, storage.Unseen, len(storage.Nodes)
		s.board.setNodes(nodesOf(storage))
		s.board.set(eventSummary, summaryOf(storage))
		s.waiting.list(now, storage.WaitingPods)
	}
	s.board.setState(s.state())
}
