// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"context"
	"errors"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

const (
	// maxAttempts bounds the attempts of one write after conflicts. Other writers of
	// a volume or an unbound claim are few and write rarely.
	maxAttempts = 6
	// requestGrace is how long a request in progress may take after its context has
	// ended.
	requestGrace = 5 * time.Second

	volumeResource       = "persistentvolumes"
	volumeStatusResource = "persistentvolumes/status"
	claimResource        = "persistentvolumeclaims"
	claimStatusResource  = "persistentvolumeclaims/status"
)

// swap is a compare-and-swap write of one object: read, decide, write on the version that
// was read. T is a pointer, nil for an object that does not exist.
type swap[T interface {
	*v1.PersistentVolume | *v1.PersistentVolumeClaim
}] struct {
	// resource and name are for errors and metrics.
	resource, name string
	// want decides on the newest version, which may be nil: what to write, whether
	// anything, or why it is impossible.
	want func(live T) (T, bool, *plan.Failure)
	get  func(ctx context.Context) (T, error)
	put  func(ctx context.Context, object T) (T, error)
	// forward: the end of the context does not stop it.
	forward bool
}

// result is the result of a swap.
type result[T any] struct {
	// object is the newest version, nil after an error.
	object T
	// wrote: object is the response to our own write.
	wrote bool
	// doubtful: a request got no response, and may still be executed.
	doubtful bool
}

// run writes until the object is as wanted, beginning with from. An error is a
// *plan.Failure, an *APIError, or the cause of the context's end.
func (s swap[T]) run(ctx context.Context, from T) (r result[T], err error) {
	var last error
	for range maxAttempts {
		want, write, why := s.want(from)
		if last != nil {
			s.count(write, why)
		}
		switch {
		case why != nil:
			return r, why
		case !write:
			r.object = from
			return r, nil
		case ctx.Err() != nil && !s.forward:
			return r, context.Cause(ctx)
		}
		written, err := withGrace(ctx, func(ctx context.Context) (T, error) { return s.put(ctx, want) })
		if err == nil {
			r.object, r.wrote = written, true
			return r, nil
		}
		if refused(err) {
			return r, &APIError{Verb: "update", Resource: s.resource, Name: s.name, Err: err}
		}
		r.doubtful = r.doubtful || !answered(err)
		last = &APIError{Verb: "update", Resource: s.resource, Name: s.name, Err: err}
		if from, err = s.read(ctx); err != nil && ctx.Err() != nil && !s.forward {
			return r, context.Cause(ctx)
		} else if err != nil {
			return r, last
		}
	}
	return r, last
}

// read returns the newest version, nil if the object does not exist.
func (s swap[T]) read(ctx context.Context) (T, error) {
	if ctx.Err() != nil && !s.forward {
		return nil, context.Cause(ctx)
	}
	live, err := withGrace(ctx, s.get)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		resource, _, _ := strings.Cut(s.resource, "/")
		return nil, &APIError{Verb: "get", Resource: resource, Name: s.name, Err: err}
	}
	return live, nil
}

func (s swap[T]) count(write bool, why *plan.Failure) {
	switch {
	case why != nil:
		metrics.CountBindConflict(s.resource, "lost")
	case write:
		metrics.CountBindConflict(s.resource, "retried")
	default:
		metrics.CountBindConflict(s.resource, "done")
	}
}

// refused reports whether the API server rejects the write on any version.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// answered reports whether the API server has certainly not executed the write.
func answered(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err)
}

// withGrace makes one request whose outcome must be known: it is not canceled when ctx ends,
// but requestGrace later.
func withGrace[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	extended, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(requestGrace, func() { cancel(errNoAnswer) })
	})
	defer stop()
	return request(extended)
}

var errNoAnswer = errors.New("no answer in time")

// putVolume writes the volume, and the response to the cache.
func (b *Binder) putVolume(ctx context.Context, pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	return applied(b.cache.ApplyVolume)(b.client.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}))
}

// volumeWrite is a write of a volume; want decides as swap.want.
func (b *Binder) volumeWrite(name string, want func(*v1.PersistentVolume) (*v1.PersistentVolume, bool, *plan.Failure)) swap[*v1.PersistentVolume] {
	return swap[*v1.PersistentVolume]{resource: volumeResource, name: name, want: want, get: b.getVolume(name), put: b.putVolume}
}

// claimWrite is volumeWrite for a claim.
func (b *Binder) claimWrite(claim *v1.PersistentVolumeClaim, want func(*v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, bool, *plan.Failure)) swap[*v1.PersistentVolumeClaim] {
	return swap[*v1.PersistentVolumeClaim]{
		resource: claimResource, name: claim.Namespace + "/" + claim.Name,
		want: want, get: b.getClaim(claim.Namespace, claim.Name), put: b.putClaim,
	}
}

func (b *Binder) putVolumeStatus(ctx context.Context, pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	return applied(b.cache.ApplyVolume)(b.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{}))
}

func (b *Binder) putClaim(ctx context.Context, pvc *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, error) {
	return applied(b.cache.ApplyClaim)(b.client.CoreV1().PersistentVolumeClaims(pvc.Namespace).Update(ctx, pvc, metav1.UpdateOptions{}))
}

func (b *Binder) putClaimStatus(ctx context.Context, pvc *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, error) {
	return applied(b.cache.ApplyClaim)(b.client.CoreV1().PersistentVolumeClaims(pvc.Namespace).UpdateStatus(ctx, pvc, metav1.UpdateOptions{}))
}

func (b *Binder) getVolume(name string) func(context.Context) (*v1.PersistentVolume, error) {
	return func(ctx context.Context) (*v1.PersistentVolume, error) {
		return applied(b.cache.ApplyVolume)(b.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}))
	}
}

func (b *Binder) getClaim(namespace, name string) func(context.Context) (*v1.PersistentVolumeClaim, error) {
	return func(ctx context.Context) (*v1.PersistentVolumeClaim, error) {
		return applied(b.cache.ApplyClaim)(b.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{}))
	}
}

// applied records a written or read object in the cache.
func applied[T any](apply func(T)) func(T, error) (T, error) {
	return func(object T, err error) (none T, _ error) {
		if err != nil {
			return none, err
		}
		apply(object)
		return object, nil
	}
}
