// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	apisextender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/server/leader"
	"stowage.dev/stowage/pkg/testing/builders"
)

// TestHandOver: a replica that is stopped during a bind answers no further call, and
// releases the lease when the bind has ended, since only this process knows its
// reservations. A replica that has lost the lease does not wait.
func TestHandOver(t *testing.T) {
	t.Parallel()
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := newLeader(t)
			answer := l.bind()
			l.cancel(context.Canceled)
			synctest.Wait()
			l.wantBusy(t, "stopped")
			time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time
			l.wantBusy(t, "a minute later, when calls are aborted")
			if err := l.client.Tracker().Add(builders.MakeNode("new").Obj()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if size := l.made.Cache().Size(); size.Nodes != 1 {
				t.Error("the cache is not updated while a bind is in progress")
			}
			close(l.goOn)
			if err := <-l.ended; !errors.Is(err, context.DeadlineExceeded) || !l.isFree() {
				t.Errorf("error %v, want DeadlineExceeded; the lease is released: %t", err, l.isFree())
			}
			<-answer
		})
	})
	t.Run("lost the lease", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := newLeader(t)
			answer := l.bind()
			l.lose(leader.ErrLeaseLost)
			synctest.Wait()
			if !l.isFree() || l.leading.Load() {
				t.Errorf("work has ended: %t; leads: %t", l.isFree(), l.leading.Load())
			}
			close(l.goOn)
			if got := <-answer; got != `{"Error":""}` {
				t.Errorf("the bind in progress was answered with %q", got)
			}
			l.cancel(context.Canceled)
			if err := <-l.ended; err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("no bind in progress", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l, start := newLeader(t), time.Now()
			l.cancel(context.Canceled)
			if err := <-l.ended; err != nil || !l.isFree() || time.Since(start) > time.Second {
				t.Errorf("error %v, the lease is released: %t, after %s", err, l.isFree(), time.Since(start))
			}
		})
	})
}

// leading is a leading replica whose API server delays bindings.
type leading struct {
	*replica
	client *fake.Clientset
	caller *http.Client
	// binding is closed when the API server receives a binding, which it answers after
	// goOn is closed.
	binding, goOn chan struct{}
	free          chan struct{} // closed when the lease is released
	ended         chan error    // what serve returned
	cancel, lose  context.CancelCauseFunc
}

func newLeader(t *testing.T) *leading {
	t.Helper()
	l := &leading{
		client:  fake.NewClientset(builders.MakePod("p").Namespace("default").UID("pod-p").Obj()),
		binding: make(chan struct{}), goOn: make(chan struct{}), free: make(chan struct{}), ended: make(chan error, 1),
	}
	l.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		close(l.binding)
		<-l.goOn
		return true, action.(clienttesting.CreateAction).GetObject(), nil
	})
	l.replica = newReplica(&apisextender.ExtenderConfiguration{
		Mode:          apisextender.ModeFull,
		Serving:       apisextender.Serving{MaxBodyBytes: new(int64(1 << 20))},
		Timeouts:      apisextender.Timeouts{Verb: metav1.Duration{Duration: 8 * time.Second}, Hold: metav1.Duration{Duration: time.Minute}},
		BindingMode:   configv1.BindingModePVController,
		HealthAddress: new(""),
		Scoring:       configv1.VolumeScoring{Strategy: configv1.ScoringBestFit, StaticWeightPercent: new(int32(0))},
	}, l.client)
	l.lead = func(ctx context.Context, work func(context.Context) error) error {
		leading, lose := context.WithCancelCause(ctx)
		l.lose = lose
		defer close(l.free)
		return work(leading)
	}
	calls := pipes{connections: make(chan net.Conn), closed: make(chan struct{})}
	l.listener = calls
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return calls.dial() }}
	l.caller = &http.Client{Transport: transport}
	ctx, cancel := context.WithCancelCause(t.Context())
	l.cancel = cancel
	go func() { l.ended <- l.serve(ctx) }()
	t.Cleanup(transport.CloseIdleConnections)
	synctest.Wait()
	return l
}

// bind starts a bind, and returns when the API server has received it.
func (l *leading) bind() (answer <-chan string) {
	answered := make(chan string, 1)
	body, err := json.Marshal(extenderv1.ExtenderBindingArgs{PodName: "p", PodNamespace: "default", PodUID: "pod-p", Node: "a"})
	if err != nil {
		panic(err)
	}
	go func() { answered <- l.post("bind", body) }()
	<-l.binding
	return answered
}

// post returns the answer to a call, or its error.
func (l *leading) post(verb string, body []byte) string {
	response, err := l.caller.Post("http://extender/"+verb, "application/json", bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text))
}

func (l *leading) isFree() bool {
	select {
	case <-l.free:
		return true
	default:
		return false
	}
}

// wantBusy: the replica keeps the lease and answers no call.
func (l *leading) wantBusy(t *testing.T, when string) {
	t.Helper()
	if l.isFree() {
		t.Errorf("%s: the lease was released while a bind is in progress", when)
	}
	if l.leading.Load() {
		t.Errorf("%s: the replica still answers", when)
	}
	if got := l.post("filter", []byte("{}")); got != `Post "http://extender/filter": `+net.ErrClosed.Error() {
		t.Errorf("%s: a further call was answered with %q", when, got)
	}
}

// pipes is a listener in memory.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
}

func (p pipes) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.connections <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	close(p.closed)
	return nil
}

func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }
