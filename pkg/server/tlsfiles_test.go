// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestReload: a new certificate and new authorities are used from the next handshake on, as when a
// mounted Secret changes. Files that are invalid or absent change nothing.
func TestReload(t *testing.T) {
	one, two := newMounted(t), newMounted(t)
	data := filepath.Join(t.TempDir(), "data")
	mount := func(m mounted) { // as kubelet replaces the link of a volume
		t.Helper()
		if err := errors.Join(os.Symlink(m.dir, data+".next"), os.Rename(data+".next", data)); err != nil {
			t.Fatal(err)
		}
	}
	mount(one)
	address := serve(t, CallsConfig{CertFile: filepath.Join(data, "crt"), KeyFile: filepath.Join(data, "key"), ClientCAFile: filepath.Join(data, "ca")})
	// served returns the certificate that a client is served with; nil if the client is rejected.
	served := func(client mounted) []byte {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{client.client}, ClientSessionCache: client.sessions}) //nolint:gosec // the client's side is not what is tested
		if err != nil {
			return nil
		}
		defer func() { _ = connection.Close() }()
		if _, err := connection.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
			return nil
		}
		if _, err := connection.Read(make([]byte, 1)); err != nil {
			return nil
		}
		return connection.ConnectionState().PeerCertificates[0].Raw
	}
	expect := func(name string, trusted, other mounted) {
		t.Helper()
		if got := served(trusted); !bytes.Equal(got, trusted.server) {
			t.Errorf("%s: another certificate was served, or the client was rejected (%d bytes)", name, len(got))
		}
		if served(other) != nil {
			t.Errorf("%s: a client of another authority was served", name)
		}
	}
	expect("at first", one, two)
	mount(two)
	expect("replaced", two, one)
	if err := os.WriteFile(filepath.Join(two.dir, "crt"), []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("invalid", two, one)
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	expect("absent", two, one)
	mount(one)
	expect("replaced again", one, two)
}

// mounted is a directory with the files of a server, and what belongs to them.
type mounted struct {
	dir      string
	server   []byte
	client   tls.Certificate
	sessions tls.ClientSessionCache // so a client resumes its session, if the server lets it
}

func newMounted(t *testing.T) mounted {
	t.Helper()
	files := certificate(t)
	serving, err := tls.LoadX509KeyPair(files.cert, files.key)
	if err != nil {
		t.Fatal(err)
	}
	authority, client := clientCertificate(t)
	dir := filepath.Dir(files.cert)
	if err := os.Rename(authority, filepath.Join(dir, "ca")); err != nil {
		t.Fatal(err)
	}
	return mounted{dir, serving.Certificate[0], client, tls.NewLRUClientSessionCache(1)}
}
