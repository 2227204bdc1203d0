// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"stowage.dev/stowage/pkg/inspect/snapshot"
)

const (
	// relistPeriod is how often a kind is listed that the user may list and not watch.
	relistPeriod = 30 * time.Second
	// forgetRetries is after which time without a failure the delay of retries is the first one again.
	forgetRetries = time.Minute
)

var (
	// lost are the delays after a failure of the connection: a page is to be up to date soon after it is back.
	lost = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Steps: 3, Cap: 1500 * time.Millisecond, Jitter: 0.2}
	// denied are the delays until the next try to list what the user may not, or the API server does not serve.
	denied = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 8, Cap: 30 * time.Second, Jitter: 0.1}
)

// retries returns a function that returns the delays of lost.
func retries() wait.DelayFunc { return lost.DelayWithReset(clock.RealClock{}, forgetRetries) }

// Pause waits for a time. It returns false if ctx is done before.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// refused reports whether an error is an answer: the user may not read the kind, or the API server does not serve it.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// outdated reports whether an error is that the API server has no events since a list, or not yet its version. The reflector
// lists again.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// describe returns a short error about the connection to an API server.
func describe(host string, err error) error {
	failed, isURL := errors.AsType[*url.Error](err)
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s rejects the credentials; they may have expired", host)
	case isURL:
		return fmt.Errorf("no connection to the API server at %s: %w", host, failed.Err)
	}
	return fmt.Errorf("read from the API server at %s: %w", host, err)
}

// errClosed is the error of a watch whose connection ended before its first byte: client-go returns a watch without events.
var errClosed = errors.New("the connection was closed")

// watcher keeps the objects of a query up to date.
type watcher struct {
	cluster *Cluster
	client  snapshot.Client
	query   snapshot.Query
	// narrow is the query of one namespace, if canNarrow.
	narrow    snapshot.Query
	canNarrow bool

	// The lock of the cluster guards what follows.

	objects *snapshot.Set // nil until the query was answered
	gap     *snapshot.Gap
	absent  bool
	part    *snapshot.Part // of the objects; nil if they changed
	err     error          // why the watch does not stand
}

// newestPart returns the part of a snapshot that the watcher has. The caller holds the lock.
func (w *watcher) newestPart() snapshot.Part {
	if w.part == nil {
		part := w.objects.Part()
		part.Gap, part.Absent = w.gap, w.absent
		w.part = &part
	}
	return *w.part
}

// run keeps the objects up to date until ctx is done.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.follow(ctx, w.query, nil)
		tried := []snapshot.Query{w.query}
		if apierrors.IsForbidden(err) && w.canNarrow {
			err = w.followNarrow(ctx, err)
			tried = append(tried, w.narrow)
		}
		if err == nil {
			continue // more may be listed, or ctx is done
		}
		if apierrors.IsNotFound(err) {
			w.replace(snapshot.NewSet(w.query.Kind), nil, true)
		} else {
			w.replace(snapshot.NewSet(w.query.Kind), w.gapOf(err), false)
		}
		w.answered(nil)
		w.await(ctx, err, w.answered, tried...)
	}
}

// gapOf returns the gap of what is forbidden.
func (w *watcher) gapOf(err error) *snapshot.Gap {
	gap := &snapshot.Gap{Resource: w.query.Kind.Resource.GroupResource().String(), Reason: err.Error()}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		gap.Reason = status.Error() // without the reflector's words
	}
	return gap
}

// followNarrow keeps the objects of one namespace up to date until that is refused, which is the error, or all may be
// listed, or ctx is done.
func (w *watcher) followNarrow(ctx context.Context, forbidden error) error {
	gap := w.gapOf(forbidden)
	gap.Except = w.narrow.Namespace
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		w.await(ctx, forbidden, func(error) {}, w.query)
		cancel()
	})
	err := w.follow(ctx, w.narrow, gap)
	cancel()
	waiting.Wait()
	return err
}

// await returns when one of the queries is answered otherwise than by an error like before, or ctx is done. It calls
// answered with errors of the connection, and with nil after answers.
func (w *watcher) await(ctx context.Context, before error, answered func(error), queries ...snapshot.Query) {
	delays := denied
	for Pause(ctx, delays.Step()) {
		for _, q := range queries {
			_, err := w.client.List(ctx, q, metav1.ListOptions{Limit: 1})
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && !refused(err):
				answered(err)
				delays = denied // the connection is to be found soon
			case apierrors.ReasonForError(err) == apierrors.ReasonForError(before):
				answered(nil)
			default:
				return
			}
		}
	}
}

// follow lists and watches a query until it is refused, which is the error, or ctx is done. gap is what the query lacks.
func (w *watcher) follow(ctx context.Context, q snapshot.Query, gap *snapshot.Gap) error {
	s := &store{watcher: w, query: q, gap: gap}
	example := q.Kind.New()
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}, example, s,
		cache.ReflectorOptions{Name: q.Kind.Resource.Resource, Backoff: &lost})
	delay, refusals := retries(), 0
	for ctx.Err() == nil {
		s.listed, s.watched = false, false
		err := reflector.ListAndWatchWithContext(ctx)
		switch {
		case !refused(err):
			refusals = 0
			Pause(ctx, delay())
		case s.listed && !s.watched: // the user may list, and not watch
			w.answered(nil)
			Pause(ctx, relistPeriod)
		case s.ever && refusals == 0: // an API server that has just started may not know roles and resources
			refusals++
			Pause(ctx, delay())
		default:
			return err
		}
	}
	return nil
}

// answered records that the watch stands, or is not needed; or the error of the connection.
func (w *watcher) answered(err error) {
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	w.err = nil
	if err != nil {
		w.err = describe(c.rest.Host, err)
	} else {
		c.seen()
	}
	c.connectionChanged()
}

// replace replaces the objects, and what of their kind could not be read.
func (w *watcher) replace(objects *snapshot.Set, gap *snapshot.Gap, absent bool) {
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	w.objects, w.gap, w.absent = objects, gap, absent
	w.changed()
}

// changed records that the objects changed. The caller holds the lock.
func (w *watcher) changed() {
	w.part, w.cluster.outdated = nil, true
	w.cluster.seen()
	signal(w.cluster.changed)
}

// store gives a reflector requests of a query, and the objects to keep up to date. Its fields are used by the
// goroutine of the reflector alone.
type store struct {
	watcher *watcher
	query   snapshot.Query
	gap     *snapshot.Gap
	// listed and watched are what succeeded since the last failure, ever is whether a list did at all.
	listed, watched, ever bool
	// streams: the watch begins with all objects, which Replace gets.
	streams bool
}

var (
	_ cache.TransformingStore      = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
)

func (s *store) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := s.watcher.client.List(ctx, s.query, options)
	if err != nil {
		s.failed(ctx, err)
		return nil, err
	}
	return list, meta.EachListItem(list, func(object runtime.Object) error {
		_, err := trim(object)
		return err
	})
}

func (s *store) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := s.watcher.client.Watch(ctx, s.query, options)
	if _, open := w.(*watch.StreamWatcher); err == nil && !open {
		w.Stop()
		err = errClosed
	}
	s.streams = err == nil && options.SendInitialEvents != nil
	switch {
	case err != nil && options.SendInitialEvents != nil:
		if _, answer := errors.AsType[*apierrors.StatusError](err); !answer {
			s.failed(ctx, err)
		}
		if !outdated(err) {
			err = errors.New("watch: " + err.Error()) // the reflector lists instead of a retry during which ctx does not end it
		}
		return nil, err
	case err != nil:
		s.failed(ctx, err)
		return nil, err
	case !s.streams:
		s.stands()
	}
	return w, nil
}

// failed records an error of the connection.
func (s *store) failed(ctx context.Context, err error) {
	if ctx.Err() == nil && !refused(err) && !outdated(err) {
		s.watcher.answered(err)
	}
}

func (s *store) stands() {
	s.watched = true
	s.watcher.answered(nil)
}

// Replace is called with all objects.
func (s *store) Replace(objects []any, _ string) error {
	set := snapshot.NewSet(s.query.Kind)
	for _, object := range objects {
		if err := set.Put(object); err != nil {
			return err
		}
	}
	s.listed, s.ever = true, true
	s.watcher.replace(set, s.gap, false)
	if s.streams {
		s.stands()
	}
	return nil
}

// trim drops the fields of an object that nothing reads.
func trim(object any) (any, error) {
	of, ok := object.(snapshot.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object of the API", object)
	}
	snapshot.Trim(of)
	return object, nil
}

// Add is called with an object that exists.
func (s *store) Add(object any) error {
	object, err := trim(object)
	if err != nil {
		return err
	}
	w := s.watcher
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	if err := w.objects.Put(object); err != nil {
		return err
	}
	w.changed()
	return nil
}

// Update is Add.
func (s *store) Update(object any) error { return s.Add(object) }

// Delete is called with an object that was deleted.
func (s *store) Delete(object any) error {
	deleted, ok := object.(snapshot.Object)
	if !ok {
		return fmt.Errorf("%T is not an object of the API", object)
	}
	w := s.watcher
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.objects.Delete(deleted)
	w.changed()
	return nil
}

// Bookmark is called when there were no changes.
func (s *store) Bookmark(string) error {
	c := s.watcher.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen()
	return nil
}

// Resync does nothing: the store has all objects.
func (s *store) Resync() error { return nil }

// Transformer returns what is done with objects before they are stored.
func (s *store) Transformer() cache.TransformFunc { return trim }
