// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
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

// CallsConfig says what calls to serve, to whom and where.
type CallsConfig struct {
	// Address is "host:port"; an empty host is every one. Not used when Listener
	// is set.
	Address  string
	Listener net.Listener
	// Handler answers.
	Handler http.Handler
	// CertFile, KeyFile and ClientCAFile are PEM files, read anew when they
	// change. A change that cannot be read is logged, and what was read before
	// stays. Without CertFile calls are served in plain HTTP.
	CertFile, KeyFile, ClientCAFile string
	// ClientNames are the common names of client certificates that may call;
	// none: any that ClientCAFile has signed.
	ClientNames []string
}

// ServeCalls answers until ctx ends. With certificates, a client without one that
// ClientCAFile has signed does not get as far as HTTP.
func ServeCalls(ctx context.Context, c CallsConfig) error {
	if c.Listener == nil {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Address)
		if err != nil {
			return fmt.Errorf("listen at %q: %w", c.Address, err)
		}
		c.Listener = listener
	}
	logger := klog.FromContext(ctx)
	if c.CertFile == "" {
		server := newServer(c.Handler)
		logger.Info("Serving calls in plain HTTP, to anybody on this machine", "address", c.Listener.Addr().String())
		return untilDone(ctx, server, func() error { return server.Serve(c.Listener) })
	}
	// The files are followed for as long as requests are answered.
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var files sync.WaitGroup
	defer files.Wait()
	defer stop()
	config, err := followFiles(following, &files, c)
	if err != nil {
		return errors.Join(err, c.Listener.Close())
	}
	server := newServer(named(c.ClientNames, c.Handler))
	server.TLSConfig = config
	// Who is turned away should not fill the log.
	server.ErrorLog = slog.NewLogLogger(logr.ToSlogHandler(logger.V(4)), slog.LevelInfo)
	logger.V(2).Info("Serving calls", "address", c.Listener.Addr().String(), "clientNames", c.ClientNames)
	return untilDone(ctx, server, func() error { return server.ServeTLS(c.Listener, "", "") })
}

// followFiles reads the certificates, and reads them again whenever they change
// until ctx ends.
func followFiles(ctx context.Context, running *sync.WaitGroup, c CallsConfig) (*tls.Config, error) {
	// The library would leave a queue behind for files that it cannot read.
	if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
		return nil, fmt.Errorf("read the certificate in %s: %w", c.CertFile, err)
	}
	if _, err := cert.NewPool(c.ClientCAFile); err != nil {
		return nil, fmt.Errorf("read the authorities of clients: %w", err)
	}
	serving, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate in %s: %w", c.CertFile, err)
	}
	clients, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("read the authorities of clients in %s: %w", c.ClientCAFile, err)
	}
	base := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.RequireAndVerifyClientCert,
	}
	controller := dynamiccertificates.NewDynamicServingCertificateController(base, clients, serving, nil, nil)
	clients.AddListener(controller)
	serving.AddListener(controller)
	if err := controller.RunOnce(); err != nil {
		return nil, fmt.Errorf("use the certificate in %s: %w", c.CertFile, err)
	}
	running.Go(func() { clients.Run(ctx, 1) })
	running.Go(func() { serving.Run(ctx, 1) })
	running.Go(func() { controller.Run(1, ctx.Done()) })
	config := base.Clone()
	config.GetConfigForClient = controller.GetConfigForClient
	return config, nil
}

// named lets through requests of clients with one of the names.
func named(names []string, next http.Handler) http.Handler {
	if len(names) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "a client certificate is needed", http.StatusUnauthorized)
			return
		}
		if name := r.TLS.PeerCertificates[0].Subject.CommonName; !slices.Contains(names, name) {
			http.Error(w, fmt.Sprintf("client %q is not among those that may call (serving.clientNames)", name), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
