// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/test/await"
)

// watchers are clients that each watch volumes as client-go's informers do: in protobuf,
// the initial objects and later changes in one stream. Unlike informers they count
// and do not decode, or this process would need more CPU than the API server.
type watchers struct {
	config *rest.Config
	count  int
	bytes  atomic.Int64 // received, encrypted
	events atomic.Int64 // without bookmarks
	synced atomic.Int64 // watchers that have seen the initial objects

	changes await.Changes // of all these
	group   sync.WaitGroup
	cancel  context.CancelFunc
	failure atomic.Pointer[error]
}

// start begins one watch for each selector, and returns when all have seen the initial objects.
func (w *watchers) start(ctx context.Context, selectors []string) error {
	ctx, w.cancel = context.WithCancel(ctx) // of the streams; stop calls it
	w.count = len(selectors)
	if err := await.Each(context.WithoutCancel(ctx), w.count, func(_ context.Context, i int) error {
		return w.open(ctx, selectors[i])
	}); err != nil {
		return err
	}
	return w.wait(ctx, "the initial objects of all watches", func() bool { return w.synced.Load() == int64(w.count) })
}

// stop ends all watches.
func (w *watchers) stop() {
	if w.cancel != nil {
		w.cancel()
		w.group.Wait()
	}
}

// open starts one watch, on its own connection.
func (w *watchers) open(ctx context.Context, selector string) error {
	config := rest.CopyConfig(w.config)
	dialer := &net.Dialer{}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		return counted{Conn: conn, to: &w.bytes}, err
	}
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return err
	}
	body, err := client.RESTClient().Get().Resource("persistentvolumes").VersionedParams(&metav1.ListOptions{
		Watch: true, AllowWatchBookmarks: true, SendInitialEvents: new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, TimeoutSeconds: new(int64(3600)), LabelSelector: selector,
	}, scheme.ParameterCodec).SetHeader("Accept", "application/vnd.kubernetes.protobuf;stream=watch").Stream(ctx)
	if err != nil {
		return fmt.Errorf("watch volumes: %w", err)
	}
	w.group.Go(func() {
		defer body.Close()
		if err := w.read(body); ctx.Err() == nil {
			err = fmt.Errorf("a watch has ended: %w", err)
			w.failure.CompareAndSwap(nil, &err)
			w.changes.Notify()
		}
	})
	return nil
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
func (w *watchers) read(body io.ReadCloser) error {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	stream, synced := streaming.NewDecoder(info.StreamSerializer.Framer.NewFrameReader(body), info.StreamSerializer.Serializer), false
	for {
		var event metav1.WatchEvent // whose object stays encoded
		if _, _, err := stream.Decode(nil, &event); err != nil {
			return err
		}
		switch {
		case event.Type == string(watch.Error):
			return errors.New("the API server ended a watch")
		case event.Type != string(watch.Bookmark):
			w.events.Add(1)
		case !synced:
			synced = true
			w.synced.Add(1)
		}
		w.changes.Notify()
	}
}

// wait waits until is returns true, unless a watch has failed.
func (w *watchers) wait(ctx context.Context, what string, is func() bool) error {
	err := w.changes.Wait(ctx, waitLimit, what, func() bool { return w.failure.Load() != nil || is() })
	if failure := w.failure.Load(); failure != nil {
		return *failure
	}
	return err
}
