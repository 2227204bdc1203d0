// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/test/deadline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDescribe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"no server": {
			err:  &url.Error{Op: "Get", URL: "https://a/api/v1/pods?watch=true", Err: errors.New("connection refused")},
			want: "no connection to the API server at https://a: connection refused",
		},
		"expired credentials": {
			err:  fmt.Errorf("list: %w", apierrors.NewUnauthorized("Unauthorized")),
			want: "the API server at https://a rejects the credentials; they may have expired",
		},
		"overloaded": {
			err:  apierrors.NewTooManyRequests("try later", 1),
			want: "read from the API server at https://a: try later",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, describe("https://a", test.err).Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// The answers of a server.
const (
	podList  = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"listed","resourceVersion":"1","managedFields":[{}]}}]}`
	nodeList = `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"listed"}}]}`
	added    = `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"added","resourceVersion":"2","managedFields":[{}]}}}`
	ofNode   = `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"node","resourceVersion":"3"}}}`
	deleted  = `{"type":"DELETED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"listed","resourceVersion":"4"}}}`
	expired  = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`
	listed   = `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"2","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	failure  = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"unwell","reason":"InternalError","code":500}`
)

// refuse closes the connection instead of an answer.
const refuse = "close"

// server is an API server with one kind. It gives each of the answers to one request of its sort, and the last one to all
// that follow.
type server struct {
	mu                  sync.Mutex
	list, stream, watch []string // stream: a watch that begins with all objects, which not all servers have
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/version" {
		fmt.Fprint(w, `{"gitVersion":"v1.37.1"}`)
		return
	}
	answer := s.answer(r.URL.Query())
	switch answer {
	case refuse:
		panic(http.ErrAbortHandler)
	case failure:
		w.WriteHeader(http.StatusInternalServerError)
	}
	fmt.Fprint(w, answer)
	if r.URL.Query().Get("watch") != "" && answer != failure {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// answer returns the next answer to a request.
func (s *server) answer(query url.Values) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := &s.list
	switch {
	case query.Get("sendInitialEvents") != "":
		answers = &s.stream
	case query.Get("watch") != "":
		answers = &s.watch
	}
	if len(*answers) == 0 {
		return failure
	}
	answer := (*answers)[0]
	if len(*answers) > 1 {
		*answers = (*answers)[1:]
	}
	return answer
}

// TestServers: what servers answer, which may be old, or wrong.
func TestServers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server *server
		pods   []string
		fails  string // the error of the connection, after the address; empty for none
	}{
		"a server that streams": {
			server: &server{stream: []string{added + listed}}, pods: []string{"added"},
		},
		"a server that lists": {
			server: &server{list: []string{podList}, watch: []string{added}}, pods: []string{"added", "listed"},
		},
		"an object is deleted": {
			server: &server{list: []string{podList}, watch: []string{deleted + added}}, pods: []string{"added"},
		},
		"a watch has events of another kind": {
			server: &server{list: []string{podList}, watch: []string{ofNode + added}}, pods: []string{"added", "listed"},
		},
		"the events are no longer available": {
			server: &server{list: []string{podList}, watch: []string{expired, added}}, pods: []string{"added", "listed"},
		},
		"a list of another kind": {
			server: &server{list: []string{nodeList}, watch: []string{added}}, fails: "the answer to a list is a *v1.NodeList",
		},
		"a server that fails": {
			server: &server{}, fails: "unwell",
		},
		"a server that fails at first": {
			server: &server{list: []string{failure, podList}, watch: []string{failure, added}}, pods: []string{"added", "listed"},
		},
		"a connection that is closed at first": {
			server: &server{stream: []string{refuse}, list: []string{podList}, watch: []string{refuse, added}}, pods: []string{"added", "listed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served := httptest.NewUnstartedServer(test.server)
			served.Config.ErrorLog = log.New(io.Discard, "", 0)
			served.Start()
			defer served.Close()
			c, stop := start(t, served.URL)
			defer stop()
			var got []string
			var failed error
			await(t, c, func() bool {
				got, failed = podNames(t, c.Snapshot()), c.Connection().Err
				if test.fails != "" {
					return failed != nil && strings.HasSuffix(failed.Error(), test.fails)
				}
				return failed == nil && cmp.Equal(test.pods, got)
			}, func() string { return fmt.Sprintf("pods %q, error %v", got, failed) })
		})
	}
}

// TestNoServer: Run ends with its context while the API server is away.
func TestNoServer(t *testing.T) {
	t.Parallel()
	served := httptest.NewServer(&server{})
	served.Close()
	c, stop := start(t, served.URL)
	if err := c.Connection().Err; err == nil {
		t.Error("there is a connection")
	}
	await(t, c, func() bool {
		return strings.HasPrefix(c.Connection().Err.Error(), "no connection to the API server at "+served.URL)
	}, func() string { return c.Connection().Err.Error() })
	if c.Snapshot() != nil {
		t.Error("there is a snapshot")
	}
	stop()
}

// start runs a cluster whose pods are watched. stop ends it.
func start(t *testing.T, host string) (c *Cluster, stop func()) {
	t.Helper()
	c, err := New(Config{REST: &rest.Config{Host: host}, Queries: []snapshot.Query{{Kind: snapshot.KindOf[*corev1.Pod]()}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	return c, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// await waits until is returns true, which is called after changes.
func await(t *testing.T, c *Cluster, is func() bool, state func() string) {
	t.Helper()
	timer := time.NewTimer(deadline.Wait())
	defer timer.Stop()
	for !is() {
		select {
		case <-c.Changed():
		case <-timer.C:
			t.Fatal(state())
		}
	}
}

// podNames returns the sorted names of pods, none of which may have managed fields.
func podNames(t *testing.T, s *snapshot.Snapshot) []string {
	t.Helper()
	if s == nil {
		return nil
	}
	var all []string
	for _, pod := range snapshot.Of[*corev1.Pod](s) {
		if pod.ManagedFields != nil {
			t.Errorf("pod %s has managed fields", pod.Name)
		}
		all = append(all, pod.Name)
	}
	slices.Sort(all)
	return all
}

// BenchmarkSnapshot takes a snapshot after one of 72,000 volumes and one of 30,000 pods changed.
func BenchmarkSnapshot(b *testing.B) {
	c, err := New(Config{REST: &rest.Config{}, Queries: []snapshot.Query{
		{Kind: snapshot.KindOf[*corev1.PersistentVolume]()}, {Kind: snapshot.KindOf[*corev1.Pod]()},
	}})
	if err != nil {
		b.Fatal(err)
	}
	c.serverRead = true
	volumes, pods := &store{watcher: c.watchers[0], query: c.watchers[0].query}, &store{watcher: c.watchers[1], query: c.watchers[1].query}
	var all, others []any
	for n := range 72_000 {
		all = append(all, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("volume-", n)}})
	}
	for n := range 30_000 {
		others = append(others, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", n)}})
	}
	if err := errors.Join(volumes.Replace(all, ""), pods.Replace(others, "")); err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		if err := errors.Join(volumes.Update(all[n%len(all)]), pods.Update(others[n%len(others)])); err != nil {
			b.Fatal(err)
		}
		if got := len(snapshot.Of[*corev1.PersistentVolume](c.Snapshot())); got != len(all) {
			b.Fatalf("%d volumes", got)
		}
	}
}
