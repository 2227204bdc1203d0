// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
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

// tlsFiles are PEM files, reloaded when they change, and the protocols above TLS.
type tlsFiles struct {
	cert, key string
	// clientCA has the authorities of client certificates; empty: clients need no certificate.
	clientCA  string
	protocols []string
}

// serveTLS serves until ctx ends. The files are watched as long as requests are served.
func serveTLS(ctx context.Context, server *http.Server, listener net.Listener, f tlsFiles) error {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var files sync.WaitGroup
	defer files.Wait()
	defer stop()
	config, err := f.follow(following, &files)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server.TLSConfig = config
	// Rejected handshakes must not fill the log.
	server.ErrorLog = slog.NewLogLogger(logr.ToSlogHandler(klog.FromContext(ctx).V(4)), slog.LevelInfo)
	return untilDone(ctx, server, func() error { return server.ServeTLS(listener, "", "") })
}

// follow reads the files, and reloads them when they change until ctx ends.
func (f tlsFiles) follow(ctx context.Context, running *sync.WaitGroup) (*tls.Config, error) {
	// The library would leak a queue for unreadable files.
	if _, err := tls.LoadX509KeyPair(f.cert, f.key); err != nil {
		return nil, fmt.Errorf("read the certificate in %s: %w", f.cert, err)
	}
	serving, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate in %s: %w", f.cert, err)
	}
	base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: f.protocols}
	var authorities dynamiccertificates.CAContentProvider
	var followAuthorities func(context.Context, int)
	if f.clientCA != "" {
		if _, err := cert.NewPool(f.clientCA); err != nil {
			return nil, fmt.Errorf("read the authorities of clients: %w", err)
		}
		clients, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", f.clientCA)
		if err != nil {
			return nil, fmt.Errorf("read the authorities of clients in %s: %w", f.clientCA, err)
		}
		base.ClientAuth, authorities, followAuthorities = tls.RequireAndVerifyClientCert, clients, clients.Run
	}
	controller := dynamiccertificates.NewDynamicServingCertificateController(base, authorities, serving, nil, nil)
	serving.AddListener(controller)
	if err := controller.RunOnce(); err != nil {
		return nil, fmt.Errorf("use the certificate in %s: %w", f.cert, err)
	}
	if authorities != nil {
		authorities.AddListener(controller)
		running.Go(func() { followAuthorities(ctx, 1) })
	}
	running.Go(func() { serving.Run(ctx, 1) })
	running.Go(func() { controller.Run(1, ctx.Done()) })
	config := base.Clone()
	config.GetConfigForClient = controller.GetConfigForClient
	return config, nil
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
