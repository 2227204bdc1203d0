// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"k8s.io/klog/v2"
)

// maxHandshakes limits concurrent TLS handshakes of calls. It is far more than a scheduler opens
// at once: Go's client dials for each call without a free connection, and a call whose handshake
// is aborted fails.
const maxHandshakes = 1024

// CallsConfig configures ServeCalls.
type CallsConfig struct {
	// Address is "host:port"; an empty host is all hosts. Not used with Listener.
	Address  string
	Listener net.Listener
	// Handler handles the calls.
	Handler http.Handler
	// CertFile, KeyFile and ClientCAFile are PEM files, reloaded when they change. An
	// invalid change is logged, and the previous files stay in use. Without CertFile calls are served in plain HTTP.
	CertFile, KeyFile, ClientCAFile string
	// ClientNames are the common names of client certificates that may call;
	// none: any certificate signed by ClientCAFile.
	ClientNames []string

	handshakes int // 0: maxHandshakes
}

// ServeCalls serves until ctx ends. With certificates, the TLS handshake rejects clients whose
// certificate ClientCAFile has not signed.
func ServeCalls(ctx context.Context, c CallsConfig) error {
	listener, err := listen(ctx, c.Listener, c.Address)
	if err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	if c.CertFile == "" {
		server := newServer(c.Handler)
		logger.Info("Serving calls in plain HTTP to all processes on this machine", "address", listener.Addr().String())
		return untilDone(ctx, server, func() error { return server.Serve(listener) })
	}
	if c.ClientCAFile == "" { // no file is not a file that admits every client
		return errors.Join(errors.New("serve calls: ClientCAFile must not be empty with CertFile"), listener.Close())
	}
	server := newServer(named(c.ClientNames, c.Handler))
	server.ConnState = releaseActive
	logger.V(2).Info("Serving calls", "address", listener.Addr().String(), "clientNames", c.ClientNames)
	return serveTLS(ctx, server, newBoundedListener(listener, cmp.Or(c.handshakes, maxHandshakes)), tlsFiles{
		cert: c.CertFile, key: c.KeyFile, clientCA: c.ClientCAFile, protocols: []string{"h2", "http/1.1"},
	})
}

// named handles only requests of clients with one of the names.
func named(names []string, next http.Handler) http.Handler {
	if len(names) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "a client certificate is required", http.StatusUnauthorized)
			return
		}
		if name := r.TLS.PeerCertificates[0].Subject.CommonName; !slices.Contains(names, name) {
			http.Error(w, fmt.Sprintf("client %q is not in serving.clientNames", name), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
