// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server serves probes and metrics (/healthz, /livez, /readyz and /metrics) in plain
// HTTP or over TLS, and calls over TLS from clients with certificates.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

const (
	// headerTimeout closes connections that send no request.
	headerTimeout = 10 * time.Second
	// idleTimeout closes idle connections.
	idleTimeout = 3 * time.Minute
	// stopTimeout is how long requests may take after the process was stopped.
	stopTimeout = 5 * time.Second
	// maxHeader limits the header of a request, in bytes.
	maxHeader = 16 << 10
)

// Limits of the address of probes and scrapes, which any client may reach. If all connections
// are in use and no client reads, they use less than 16 MiB.
const (
	// maxConnections limits open connections. A node has one kubelet and a cluster
	// a few Prometheus servers.
	maxConnections = 32
	// maxScrapes limits concurrent scrapes. Others get status 503.
	maxScrapes = 3
	// requestTimeout limits the time to send a request, and the time to read the response.
	requestTimeout = 10 * time.Second
)

// Config configures Serve. The functions may be called concurrently.
type Config struct {
	// Address is "host:port"; an empty host is all hosts. Not used with Listener.
	Address  string
	Listener net.Listener
	// Healthy returns why the process should be restarted; nil if it is healthy. Without this
	// function a process that responds is healthy.
	Healthy func() error
	// Ready returns why the process is not ready; nil if it is. part is the path after
	// /readyz/, empty for the whole.
	Ready func(part string) error
	// Secure requires TLS, and authenticates and authorizes scrapes; nil: plain HTTP, and
	// any client may scrape.
	Secure *Secure
}

// Serve serves until ctx ends.
func Serve(ctx context.Context, c Config) error {
	accepting, err := listen(ctx, c.Listener, c.Address)
	if err != nil {
		return err
	}
	listener := newBoundedListener(accepting, maxConnections)
	server := newServer(handler(c))
	server.ReadTimeout, server.WriteTimeout = requestTimeout, requestTimeout
	klog.FromContext(ctx).V(2).Info("Serving health and metrics", "address", listener.Addr().String(), "secure", c.Secure != nil)
	if c.Secure == nil {
		return untilDone(ctx, server, func() error { return server.Serve(listener) })
	}
	return c.Secure.serve(ctx, server, listener)
}

// listen returns the listener, or one at the address if there is none.
func listen(ctx context.Context, listener net.Listener, address string) (net.Listener, error) {
	if listener != nil {
		return listener, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen at %q: %w", address, err)
	}
	return listener, nil
}

func newServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader}
}

// untilDone serves until ctx ends, and then waits stopTimeout for requests.
func untilDone(ctx context.Context, server *http.Server, serve func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := server.Shutdown(stopping)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	if closed := <-ended; !errors.Is(closed, http.ErrServerClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

func handler(c Config) http.Handler {
	mux := http.NewServeMux()
	if c.Healthy == nil {
		c.Healthy = func() error { return nil }
	}
	scrapes := metrics.HandlerFor(legacyregistry.DefaultGatherer, metrics.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	if c.Secure != nil {
		scrapes = c.Secure.authorized(scrapes)
	}
	mux.Handle("GET /metrics", scrapes)
	for _, path := range []string{"GET /healthz", "GET /livez"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { answer(w, c.Healthy()) })
	}
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, c.Ready("")) })
	mux.HandleFunc("GET /readyz/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, c.Ready(strings.TrimPrefix(r.URL.Path, "/readyz/")))
	})
	return mux
}

func answer(w http.ResponseWriter, problem error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if problem != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, problem) // the client is gone
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}
