// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/live"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/test/deadline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a cluster of a test.
type source struct {
	mu         sync.Mutex
	snapshot   *snapshot.Snapshot
	connection live.Connection
	changed    chan struct{}
}

func newSource(objects ...snapshot.Object) *source {
	s := &source{changed: make(chan struct{}, 1)}
	if objects != nil {
		s.snapshot = snapshot.Build(objects...)
	}
	return s
}

func (s *source) Changed() <-chan struct{} { return s.changed }

func (s *source) Snapshot() *snapshot.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot
}

func (s *source) Connection() live.Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connection
}

// set replaces the objects.
func (s *source) set(objects ...snapshot.Object) {
	s.mu.Lock()
	s.snapshot = snapshot.Build(objects...)
	s.mu.Unlock()
	s.changed <- struct{}{}
}

func (s *source) connect(c live.Connection) {
	s.mu.Lock()
	s.connection = c
	s.mu.Unlock()
	s.changed <- struct{}{}
}

// storageOf is a map of the nodes, and the pods without one.
func storageOf(s *snapshot.Snapshot) *Storage {
	storage := &Storage{}
	for _, node := range snapshot.Of[*corev1.Node](s) {
		storage.Nodes = append(storage.Nodes, v1alpha1.StorageMapPlace{Node: node.Name, Zone: node.Labels[corev1.LabelTopologyZone]})
	}
	for _, pod := range snapshot.Of[*corev1.Pod](s) {
		storage.WaitingPods = append(storage.WaitingPods, v1alpha1.WaitingPod{Namespace: pod.Namespace, Name: pod.Name})
	}
	storage.Total.Nodes = len(storage.Nodes)
	return storage
}

// answers are those of a test. Each may be nil.
type answers struct {
	why  func(context.Context, v1alpha1.Reference) (any, error)
	pods func(snapshot.Name) (*v1alpha1.PodReport, error)
	fit  func(FitQuestion) (*v1alpha1.Fit, error)
	seen func(*snapshot.Snapshot) // by Why
}

func (a answers) Why(ctx context.Context, s *snapshot.Snapshot, object v1alpha1.Reference) (any, error) {
	if a.seen != nil {
		a.seen(s)
	}
	return a.why(ctx, object)
}

func (a answers) Pods(context.Context, *snapshot.Snapshot) func(snapshot.Name) (*v1alpha1.PodReport, error) {
	return a.pods
}

func (a answers) Fit(_ context.Context, _ *snapshot.Snapshot, q FitQuestion) (*v1alpha1.Fit, error) {
	return a.fit(q)
}

// running is a server that runs until the test ends.
type running struct {
	*testing.T
	server    *Server
	host      string
	addresses chan string // that were announced
	cookie    *http.Cookie
}

// run runs a server. Its first address is announced, and not used.
func run(t *testing.T, s Source, a answers) *running {
	t.Helper()
	listener, err := Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{T: t, host: listener.Addr().String(), addresses: make(chan string, 100)}
	r.server = New(Config{Listener: listener, Source: s, Answers: a, Map: storageOf, Cluster: "test", Announce: func(address string) { r.addresses <- address }})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		http.DefaultClient.CloseIdleConnections()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

// open runs a server, and begins a session.
func open(t *testing.T, s Source, a answers) *running {
	t.Helper()
	r := run(t, s, a)
	response, _ := r.do(<-r.addresses, nil)
	if len(response.Cookies()) != 1 {
		t.Fatalf("status %d, cookies %v, want one", response.StatusCode, response.Cookies())
	}
	r.cookie = response.Cookies()[0]
	return r
}

// do sends a request, that change may change, and returns the answer and its body.
func (r *running) do(path string, change func(*http.Request)) (*http.Response, string) {
	r.Helper()
	if strings.HasPrefix(path, "/") {
		path = "http://" + r.host + path
	}
	ctx, cancel := deadline.Context(r.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		r.Fatal(err)
	}
	if r.cookie != nil {
		request.AddCookie(r.cookie)
	}
	if change != nil {
		change(request)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.Fatal(err)
	}
	return response, string(body)
}

// browser is a stream of events.
type browser struct {
	*testing.T
	lines *bufio.Reader
}

// connect opens a stream, which ends with the test.
func (r *running) connect() *browser {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*deadline.Wait())
	r.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.host+"/events", nil)
	if err != nil {
		r.Fatal(err)
	}
	request.AddCookie(r.cookie)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = response.Body.Close() })
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != "text/event-stream" {
		r.Fatalf("status %d, type %s", response.StatusCode, got)
	}
	return &browser{r.T, bufio.NewReader(response.Body)}
}

// next returns the next message of an event, and skips others.
func next[T any](b *browser, event string) (content T) {
	b.Helper()
	for {
		line, err := b.lines.ReadString('\n')
		if err != nil {
			b.Fatalf("no %s: %v", event, err)
		}
		if line != "event: "+event+"\n" {
			continue
		}
		data, err := b.lines.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		text, ok := strings.CutPrefix(data, "data: ")
		if !ok {
			b.Fatalf("%q is no data", data)
		}
		if err := json.Unmarshal([]byte(text), &content); err != nil {
			b.Fatal(err)
		}
		return content
	}
}

// until returns the first message of an event that is as wanted.
func until[T any](b *browser, event string, wanted func(T) bool) T {
	b.Helper()
	for {
		if content := next[T](b, event); wanted(content) {
			return content
		}
	}
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
