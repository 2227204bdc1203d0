// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server is how Stowage's own processes serve: probes and scrapes (/healthz,
// /livez, /readyz and /metrics) in plain HTTP, and calls over TLS from clients with
// certificates.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

const (
	// headerTimeout ends connections that never ask for anything.
	headerTimeout = 10 * time.Second
	// idleTimeout ends connections that are kept for nothing.
	idleTimeout = 3 * time.Minute
	// stopTimeout is how long requests may still take when the process ends.
	stopTimeout = 5 * time.Second
	// maxHeader is what a request's header may have, in bytes.
	maxHeader = 16 << 10
)

// Config says what to serve, and where. The functions may be called concurrently.
type Config struct {
	// Address is "host:port"; an empty host is every one.
	Address string
	// Healthy says why the process should be started anew; nil if it should not.
	Healthy func() error
	// Ready says why the process cannot do its work; nil if it can. part is what comes
	// after /readyz/, empty for the whole.
	Ready func(part string) error
}

// Serve answers until ctx ends.
func Serve(ctx context.Context, c Config) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return fmt.Errorf("listen at %q: %w", c.Address, err)
	}
	server := newServer(handler(c))
	klog.FromContext(ctx).V(2).Info("Serving health and metrics", "address", listener.Addr().String())
	return untilDone(ctx, server, func() error { return server.Serve(listener) })
}

func newServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader}
}

// untilDone serves until ctx ends, and then gives requests a little time.
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
	mux.Handle("GET /metrics", legacyregistry.Handler())
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
