// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

// tlsFiles are PEM files, reloaded when they change, and the protocols above TLS. The reloader of
// k8s.io/apiserver does the same, but imports the clients of all kinds of Kubernetes, which take
// memory on every node.
type tlsFiles struct {
	cert, key string
	// clientCA has the authorities of client certificates; empty: clients need no certificate.
	clientCA  string
	protocols []string
}

// serveTLS serves until ctx ends.
func serveTLS(ctx context.Context, server *http.Server, listener net.Listener, files tlsFiles) error {
	logger := klog.FromContext(ctx)
	current := &tlsConfigs{files: files, logger: logger}
	if err := current.load(); err != nil {
		return errors.Join(err, listener.Close())
	}
	server.TLSConfig = current.config.Clone()
	server.TLSConfig.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.latest(), nil }
	// Rejected handshakes must not fill the log.
	server.ErrorLog = slog.NewLogLogger(logr.ToSlogHandler(logger.V(4)), slog.LevelInfo)
	return untilDone(ctx, server, func() error { return server.ServeTLS(listener, "", "") })
}

// read reads the files.
func (f *tlsFiles) read() (*tls.Config, error) {
	serving, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate in %s: %w", f.cert, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: f.protocols, Certificates: []tls.Certificate{serving}}
	if f.clientCA != "" {
		if config.ClientCAs, err = cert.NewPool(f.clientCA); err != nil {
			return nil, fmt.Errorf("read the authorities of clients in %s: %w", f.clientCA, err)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// states returns what changes when a file does, also if it is a link of a mounted Secret. A file
// that is absent has nil.
func (f *tlsFiles) states() [3]fs.FileInfo {
	var states [3]fs.FileInfo
	for i, file := range []string{f.cert, f.key, f.clientCA} {
		if info, err := os.Stat(file); err == nil {
			states[i] = info
		}
	}
	return states
}

// tlsConfigs has the TLS configuration of the files as they are. It is safe for concurrent use.
type tlsConfigs struct {
	files  tlsFiles
	logger klog.Logger

	mu     sync.Mutex
	config *tls.Config
	states [3]fs.FileInfo // of the files when they were read last
}

// load reads the files. The last configuration stays after an error.
func (c *tlsConfigs) load() error {
	c.states = c.files.states()
	config, err := c.files.read()
	if err != nil {
		return err
	}
	c.config = config
	return nil
}

// latest returns the configuration for a handshake. It reads the files if they have changed since
// the last one. An invalid change is logged once.
func (c *tlsConfigs) latest() *tls.Config {
	states := c.files.states()
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.EqualFunc(states[:], c.states[:], sameFile) {
		return c.config
	}
	if err := c.load(); err != nil {
		c.logger.Error(err, "Failed to reload a TLS file; the previous ones stay in use")
	} else {
		c.logger.Info("Reloaded the TLS files", "certificate", c.files.cert)
	}
	return c.config
}

// sameFile returns whether a file is unchanged.
func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
