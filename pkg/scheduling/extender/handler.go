// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/metrics"
)

// The verbs: what follows urlPrefix in the scheduler's configuration, as filterVerb and
// so on.
const (
	VerbFilter     = "filter"
	VerbPrioritize = "prioritize"
	VerbPreempt    = "preempt"
	VerbBind       = "bind"
)

const (
	// maxConcurrent bounds how many calls of one verb are read and answered at a time,
	// and so the memory for their bodies. kube-scheduler filters, prioritizes and
	// preempts for one pod at a time.
	maxConcurrent = 32
	// maxConcurrentBinds is for bind, which kube-scheduler calls for many pods at a time
	// and which mostly waits for the API server.
	maxConcurrentBinds = 1024
	// maxBindBody bounds the body of a call to bind, which has four names.
	maxBindBody = 64 << 10
	// maxDrain bounds how much of a body that is too large is discarded, so that the
	// caller reads the answer.
	maxDrain = 64 << 20
)

// Outcomes, as metric labels.
const (
	outcomeOK        = "ok"
	outcomeError     = "error"
	outcomeMalformed = "malformed"
	outcomeTooLarge  = "too_large"
	outcomeNotReady  = "not_ready"
	outcomeEnded     = "ended"
	outcomePanic     = "panic"
)

// Handler answers POST /VERB for the verbs of the mode.
func (e *Extender) Handler() http.Handler {
	mux := http.NewServeMux()
	add(mux, e, verb[extenderv1.ExtenderArgs, *verdict]{
		name: VerbFilter, answer: e.filter,
		failed: func(err error) *verdict {
			v := newVerdict(candidates{})
			v.err = err.Error()
			return v
		},
		failure: func(v *verdict) string { return v.err },
	})
	add(mux, e, verb[extenderv1.ExtenderArgs, *ranking]{name: VerbPrioritize, answer: e.prioritize})
	if e.settings.Mode == extender.ModeAdvisory {
		return mux
	}
	add(mux, e, verb[extenderv1.ExtenderPreemptionArgs, *extenderv1.ExtenderPreemptionResult]{name: VerbPreempt, answer: e.preempt})
	add(mux, e, verb[extenderv1.ExtenderBindingArgs, *extenderv1.ExtenderBindingResult]{
		name: VerbBind, answer: e.bind, maxConcurrent: maxConcurrentBinds, maxBody: maxBindBody,
		failed: func(err error) *extenderv1.ExtenderBindingResult {
			return &extenderv1.ExtenderBindingResult{Error: err.Error()}
		},
		failure: func(r *extenderv1.ExtenderBindingResult) string { return r.Error },
	})
	return mux
}

// verb is one verb of the protocol.
type verb[Args, Result any] struct {
	name   string
	answer func(context.Context, *Args) (Result, error)
	// failed returns the answer to a call that failed, so that the pod's user gets the
	// reason: of other statuses than 200 kube-scheduler shows only the number. nil if
	// answers have no field for errors.
	failed func(error) Result
	// failure returns the error of an answer; "" for none.
	failure func(Result) string

	maxConcurrent int
	maxBody       int64
}

// add serves a verb.
func add[Args, Result any](mux *http.ServeMux, e *Extender, v verb[Args, Result]) {
	if v.maxConcurrent == 0 {
		v.maxConcurrent = maxConcurrent
	}
	if v.maxBody == 0 {
		v.maxBody = *e.settings.Serving.MaxBodyBytes
	}
	limiter := make(chan struct{}, v.maxConcurrent)
	mux.HandleFunc("POST /"+v.name, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		outcome := outcomePanic
		defer func() { metrics.ObserveExtenderRequest(v.name, outcome, time.Since(start)) }()
		limit := e.settings.Timeouts.Verb.Duration
		ctx, cancel := context.WithTimeoutCause(r.Context(), limit, fmt.Errorf("%s took longer than %s (timeouts.verb)", v.name, limit))
		defer cancel()
		// Slow senders and readers do not get more time.
		control, deadline := http.NewResponseController(w), start.Add(limit)
		_ = control.SetReadDeadline(deadline)                  // some connections do not support deadlines
		_ = control.SetWriteDeadline(deadline.Add(writeGrace)) // and these are bounded by the server
		select {
		case limiter <- struct{}{}:
			defer func() { <-limiter }()
		case <-ctx.Done():
			outcome = respond(ctx, w, v, context.Cause(ctx))
			return
		}
		result, err := call(ctx, e, v, r.Body)
		if err != nil {
			outcome = respond(ctx, w, v, err)
			return
		}
		outcome = outcomeOK
		if v.failure != nil && v.failure(result) != "" {
			outcome = outcomeError
		}
		if err := write(w, result); err != nil {
			outcome = outcomeEnded
		}
	})
}

// writeGrace is the time after the call's deadline for writing an answer that reports it.
const writeGrace = time.Second

// call decodes the arguments and answers. A panic is logged and returned as an error.
func call[Args, Result any](ctx context.Context, e *Extender, v verb[Args, Result], body io.Reader) (result Result, err error) {
	defer func() { err = errors.Join(err, recovered(ctx, v.name, recover())) }()
	if err := e.Ready(); err != nil {
		return result, err
	}
	args := new(Args)
	if err := read(body, v.maxBody, args); err != nil {
		return result, err
	}
	return v.answer(ctx, args)
}

// callError is the error of a call with another status than 500 or another outcome than error.
type callError struct {
	status        int
	outcome, text string
}

func (e *callError) Error() string { return e.text }

// malformed means that the body is not the verb's arguments.
func malformed(err error) error {
	return &callError{http.StatusBadRequest, outcomeMalformed, "read the request: " + err.Error()}
}

// recovered returns an error for the value of recover.
func recovered(ctx context.Context, verb string, what any) error {
	if what == nil {
		return nil
	}
	err := &callError{http.StatusInternalServerError, outcomePanic, verb + " failed with an internal error; see the extender's log"}
	klog.FromContext(ctx).Error(err, "Panic", "verb", verb, "panic", fmt.Sprint(what), "stack", string(debug.Stack()))
	return err
}

// read decodes a body of at most limit bytes.
func read(body io.Reader, limit int64, into any) error {
	text := getBuffer()
	defer putBuffer(text) // decode copies
	n, err := text.ReadFrom(io.LimitReader(body, limit+1))
	if n > limit {
		_, _ = io.CopyN(io.Discard, body, maxDrain) // up to its end or that of the connection
		return &callError{http.StatusRequestEntityTooLarge, outcomeTooLarge, fmt.Sprintf(
			"the request's body has more than %d bytes: set nodeCacheCapable: true in the scheduler's configuration, or raise serving.maxBodyBytes in the extender's", limit)}
	}
	if err == nil {
		err = decode(text.Bytes(), into)
	}
	if err != nil {
		return malformed(err)
	}
	return nil
}

// respond answers a failed call, and returns its outcome for metrics.
func respond[Args, Result any](ctx context.Context, w http.ResponseWriter, v verb[Args, Result], why error) string {
	status, outcome := http.StatusInternalServerError, outcomeError
	if known, ok := errors.AsType[*callError](why); ok {
		status, outcome = known.status, known.outcome
	}
	if ctx.Err() != nil && outcome != outcomeTooLarge {
		status, outcome = http.StatusGatewayTimeout, outcomeEnded
	}
	klog.FromContext(ctx).V(2).Info("Failed to answer the scheduler", "verb", v.name, "outcome", outcome, "err", why)
	if v.failed != nil && outcome != outcomeMalformed {
		_ = write(w, v.failed(why)) // an error means that the connection is closed
		return outcome
	}
	http.Error(w, why.Error(), status)
	return outcome
}

// write writes an answer and releases its memory.
func write(w http.ResponseWriter, result any) error {
	buffer := getBuffer()
	defer putBuffer(buffer)
	err := encode(buffer, result)
	if own, ok := result.(interface{ release() }); ok {
		own.release()
	}
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, err = w.Write(buffer.Bytes())
	return err
}
