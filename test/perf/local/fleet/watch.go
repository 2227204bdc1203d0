// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"stowage.dev/stowage/test/perf/parts"
)

// waitLimit bounds one wait.
const waitLimit = 10 * time.Minute

// watchers are clients that each watch volumes as client-go's informers do: in protobuf,
// the initial objects and later changes in one stream. Unlike informers they count
// and do not decode, or this process would need more CPU than the API server.
type watchers struct {
	config *rest.Config
	bytes  atomic.Int64 // received, encrypted
	events atomic.Int64 // without bookmarks

	all     []*watcher
	group   sync.WaitGroup
	cancel  context.CancelFunc
	failure atomic.Pointer[error]
}

type watcher struct {
	body      io.ReadCloser
	transport *http.Transport
	synced    chan struct{} // closed when it has seen the initial objects, or has failed
	once      sync.Once
}

// start begins one watch for each selector.
func (w *watchers) start(ctx context.Context, selectors []string) error {
	ctx, w.cancel = context.WithCancel(ctx) // of the streams; stop calls it
	w.all = make([]*watcher, len(selectors))
	return parts.Each(context.WithoutCancel(ctx), len(selectors), func(_ context.Context, i int) (err error) {
		w.all[i], err = w.open(ctx, selectors[i])
		return err
	})
}

// stop ends all watches.
func (w *watchers) stop() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	for _, one := range w.all {
		if one != nil {
			_ = one.body.Close()
			one.transport.CloseIdleConnections()
		}
	}
	w.group.Wait()
}

// open starts one watch, on its own connection.
func (w *watchers) open(ctx context.Context, selector string) (*watcher, error) {
	tls, err := rest.TLSConfigFor(w.config)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{}
	transport := &http.Transport{
		TLSClientConfig: tls, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			return counted{Conn: conn, to: &w.bytes}, err
		},
	}
	query := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "sendInitialEvents": {"true"},
		"resourceVersionMatch": {"NotOlderThan"}, "timeoutSeconds": {"3600"}, "labelSelector": {selector},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.config.Host+"/api/v1/persistentvolumes?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf;stream=watch")
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("watch volumes: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return nil, errors.Join(fmt.Errorf("watch volumes: %s: %s", answer.Status, text), answer.Body.Close())
	}
	one := &watcher{body: answer.Body, transport: transport, synced: make(chan struct{})}
	w.group.Go(func() {
		if err := w.read(one); ctx.Err() == nil {
			err = fmt.Errorf("a watch has ended: %w", err)
			w.failure.CompareAndSwap(nil, &err)
		}
		one.once.Do(func() { close(one.synced) })
	})
	return one, nil
}

// counted counts the bytes read from a connection.
type counted struct {
	net.Conn
	to *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.to.Add(int64(n))
	return n, err
}

// read counts events until the stream ends. The first bookmark follows the initial
// objects.
func (w *watchers) read(one *watcher) error {
	stream := bufio.NewReaderSize(one.body, 32<<10)
	for {
		kind, err := readEvent(stream)
		if err != nil {
			return err
		}
		switch kind {
		case "BOOKMARK":
			one.once.Do(func() { close(one.synced) })
		case "ERROR":
			return errors.New("the API server ended a watch")
		default:
			w.events.Add(1)
		}
	}
}

// readEvent reads one event of a stream in protobuf and returns its type: a length in
// four bytes, and a message whose first field is the type.
func readEvent(stream *bufio.Reader) (string, error) {
	var length [4]byte
	if _, err := io.ReadFull(stream, length[:]); err != nil {
		return "", err
	}
	rest := int(binary.BigEndian.Uint32(length[:]))
	head, err := stream.Peek(min(rest, 2))
	if err != nil {
		return "", err
	}
	const firstField = 1<<3 | 2 // a text
	if len(head) < 2 || head[0] != firstField || int(head[1]) > rest-2 {
		return "", fmt.Errorf("read an event: it begins with %x", head)
	}
	kind := make([]byte, 2+int(head[1]))
	if _, err := io.ReadFull(stream, kind); err != nil {
		return "", err
	}
	_, err = stream.Discard(rest - len(kind))
	return string(kind[2:]), err
}

// synced waits until all have seen the initial objects.
func (w *watchers) synced(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	for _, one := range w.all {
		if err := w.await(ctx, one.synced); err != nil {
			return err
		}
	}
	return nil
}

// recount is the time between two counts of events that are waited for.
const recount = 5 * time.Millisecond

// reach waits until all watchers together have seen this number of events.
func (w *watchers) reach(ctx context.Context, events int64) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	if len(w.all) == 0 {
		return nil
	}
	ticker := time.NewTicker(recount)
	defer ticker.Stop()
	for w.events.Load() < events {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d events seen", ctx.Err(), w.events.Load(), events)
		}
		if failure := w.failure.Load(); failure != nil {
			return *failure
		}
	}
	return nil
}

// await waits for one thing, unless a watch has failed.
func (w *watchers) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if failure := w.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}
