// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	certutil "k8s.io/client-go/util/cert"

	"stowage.dev/stowage/test/deadline"
)

// healthy is the configuration of a process without problems.
func healthy(listener net.Listener) Config {
	return Config{Listener: listener, Healthy: func() error { return nil }, Ready: func(string) error { return nil }}
}

// counter is a listener that counts opened and closed connections.
type counter struct {
	net.Listener
	opened, closed chan struct{}
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &counter{listener, make(chan struct{}, 1000), make(chan struct{}, 1000)}
}

func (c *counter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.opened <- struct{}{}
	return &counted{Conn: conn, closed: c.closed}, nil
}

type counted struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *counted) Close() error {
	c.once.Do(func() { c.closed <- struct{}{} })
	return c.Conn.Close()
}

// wait waits until n connections were opened or closed.
func wait(t *testing.T, happened chan struct{}, n int, what string) {
	t.Helper()
	ctx, cancel := deadline.Context(t.Context())
	defer cancel()
	for i := range n {
		select {
		case <-happened:
		case <-ctx.Done():
			t.Fatalf("%d connections were %s, want %d", i, what, n)
		}
	}
}

// during runs serve until the test ends.
func during(t *testing.T, serve func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// connect opens connections, each of which sends text and reads nothing.
func connect(t *testing.T, address string, n int, text []byte) {
	t.Helper()
	for range n {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = conn.Write(text) // the server may have closed it
	}
}

// TestClientsThatNeverRead: clients that request metrics and never read the response keep a bounded
// number of connections open, and probes still get a response.
func TestClientsThatNeverRead(t *testing.T) {
	const clients = 300
	listener := newCounter(t)
	during(t, func(ctx context.Context) error { return Serve(ctx, healthy(listener)) })
	address := listener.Addr().String()
	connect(t, address, clients, bytes.Repeat([]byte("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"), 100))
	wait(t, listener.opened, clients, "opened")
	wait(t, listener.closed, clients-maxConnections, "closed")
	ctx, cancel := deadline.Context(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("a probe beside them: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Errorf("a probe beside them: status %d", response.StatusCode)
	}
}

// pipes is a listener for connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// from is a connection from an address.
type from struct {
	net.Conn
	address string
	closed  bool
}

func (f *from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.address), Port: 1} }
func (f *from) Close() error         { f.closed = true; return nil }

// TestExcessConnection: with a limit of three, a fourth connection closes one of the client with
// the most.
func TestExcessConnection(t *testing.T) {
	const node, pod, other = "10.0.0.1", "10.1.0.7", "10.1.0.8"
	for name, test := range map[string]struct{ clients, want []string }{
		"as many as there may be":           {[]string{pod, pod, pod}, nil},
		"one client: its oldest":            {[]string{pod, pod, pod, pod}, []string{"0 " + pod}},
		"a flood beside an older client":    {[]string{node, pod, pod, pod, pod}, []string{"1 " + pod, "2 " + pod}},
		"a client that comes after a flood": {[]string{pod, pod, pod, node}, []string{"0 " + pod}},
		"clients that have as many: oldest": {[]string{node, pod, other, "10.1.0.9"}, []string{"0 " + node}},
	} {
		t.Run(name, func(t *testing.T) {
			inner := make(pipes, len(test.clients))
			listener := newBoundedListener(inner, 3)
			var accepted []*from
			for _, client := range test.clients {
				accepted = append(accepted, &from{address: client})
				inner <- accepted[len(accepted)-1]
				if _, err := listener.Accept(); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for i, conn := range accepted {
				if conn.closed {
					got = append(got, fmt.Sprintf("%d %s", i, conn.address))
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("closed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeadlines: the connection of a client that sends no complete request, or does not read the
// response, is closed.
func TestDeadlines(t *testing.T) {
	for name, sends := range map[string]string{
		"half a request":            "GET /healthz HTTP/1.1\r\nHost:",
		"a request, reads nothing":  "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n",
		"a body that does not come": "GET /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener, ended := make(pipes), make(chan error, 1)
				ctx, stop := context.WithCancel(t.Context())
				go func() { ended <- Serve(ctx, healthy(listener)) }()
				client, server := net.Pipe()
				closed := make(chan struct{}, 1)
				listener <- &counted{Conn: server, closed: closed}
				began := time.Now()
				if _, err := io.WriteString(client, sends); err != nil {
					t.Fatal(err)
				}
				<-closed
				if took := time.Since(began); took > 2*requestTimeout {
					t.Errorf("its connection was closed after %s", took)
				}
				_ = client.Close()
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestBoundConnectionsDeadline: for a server without deadlines, the connection of a client that does
// not read is closed; the time before the response does not count.
func TestBoundConnectionsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const before = 3 * requestTimeout
		inner, ended := make(pipes), make(chan error, 1)
		answer := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // without deadlines
			<-time.After(before)
			_, _ = w.Write([]byte("ok"))
		})}
		go func() { ended <- answer.Serve(BoundConnections(inner)) }()
		reads, server := net.Pipe()
		inner <- &from{Conn: server, address: "10.0.0.1"}
		if _, err := io.WriteString(reads, "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(reads), nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("a client that reads: %v, %v", response, err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}

		client, server := net.Pipe()
		closed := make(chan struct{}, 1)
		inner <- &counted{Conn: server, closed: closed}
		began := time.Now()
		if _, err := io.WriteString(client, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-closed
		if took := time.Since(began); took != before+requestTimeout {
			t.Errorf("the connection was closed after %s, want %s", took, before+requestTimeout)
		}
		_, _ = client.Close(), answer.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// slow is a client that reads the first bytes of a response and then waits.
type slow struct {
	*httptest.ResponseRecorder
	reads   sync.Once
	reading chan struct{}
	goOn    chan struct{}
}

func (s *slow) Write(b []byte) (int, error) {
	s.reads.Do(func() { s.reading <- struct{}{} })
	<-s.goOn
	return s.ResponseRecorder.Write(b)
}

// TestScrapesAtATime: scrapes beyond the limit get status 503, and succeed when others have ended.
func TestScrapesAtATime(t *testing.T) {
	handler := handler(healthy(nil))
	reading, goOn := make(chan struct{}), make(chan struct{})
	var scrapes sync.WaitGroup
	for range maxScrapes {
		scrapes.Go(func() {
			handler.ServeHTTP(&slow{ResponseRecorder: httptest.NewRecorder(), reading: reading, goOn: goOn}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		})
		<-reading
	}
	status := func(path string) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if got := status("/metrics"); got != http.StatusServiceUnavailable {
		t.Errorf("one scrape more: status %d", got)
	}
	if got := status("/healthz"); got != http.StatusOK {
		t.Errorf("a probe beside scrapes: status %d", got)
	}
	close(goOn)
	scrapes.Wait()
	if got := status("/metrics"); got != http.StatusOK {
		t.Errorf("a scrape after the others: status %d", got)
	}
}

// clientCertificate returns a client's certificate, and a file with its authority.
func clientCertificate(t *testing.T) (authority string, pair tls.Certificate) {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "authority"}, caKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotAfter: ca.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	authority = filepath.Join(t.TempDir(), "ca")
	if err := certutil.WriteCert(authority, pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: ca.Raw})); err != nil {
		t.Fatal(err)
	}
	return authority, tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}
}

// TestHandshakes: clients without a certificate keep a bounded number of connections open, and do
// not close the connection of a client that has presented one.
func TestHandshakes(t *testing.T) {
	const clients, most = 200, 64
	listener, files := newCounter(t), certificate(t)
	authority, pair := clientCertificate(t)
	during(t, func(ctx context.Context) error {
		return ServeCalls(ctx, CallsConfig{
			Listener: listener, handshakes: most, CertFile: files.cert, KeyFile: files.key, ClientCAFile: authority,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") }),
		})
	})
	address := listener.Addr().String()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}, //nolint:gosec // the client's side is not what is tested
	}}}
	t.Cleanup(client.CloseIdleConnections)
	call := func() {
		t.Helper()
		if got, err := get(t, client, "https://"+address); err != nil || got != "answer" {
			t.Fatalf("got %q, error %v", got, err)
		}
	}
	call()
	wait(t, listener.opened, 1, "opened")
	connect(t, address, clients, []byte{0x16})
	wait(t, listener.opened, clients, "opened")
	began := time.Now()
	wait(t, listener.closed, clients-most, "closed")
	if took := time.Since(began); took > headerTimeout/2 { // not a deadline: their number closes them, not their age
		t.Errorf("they were closed after %s", took)
	}
	call()
	select {
	case <-listener.opened:
		t.Error("the client with a certificate lost its connection")
	default:
	}
}
