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

// The verbs: what follows urlPrefix in the scheduler's configuration, as
// filterVerb and so on.
const (
	VerbFilter     = "filter"
	VerbPrioritize = "prioritize"
	VerbPreempt    = "preempt"
	VerbBind       = "bind"
)

const (
	// atOnce bounds how many calls of one verb are read and answered at a time,
	// and so the memory that their bodies take. kube-scheduler filters,
	// prioritizes and preempts for one pod after the other.
	atOnce = 32
	// bindsAtOnce is for bind, which kube-scheduler calls for many pods at a
	// time and which mostly waits for the API server.
	bindsAtOnce = 1024
	// maxBindBody is what a call to bind may have: it carries four names.
	maxBindBody = 64 << 10
	// drain is how much of a body that is too large is read and thrown away, so
	// that the caller gets to read the answer.
	drain = 64 << 20
)

// Outcomes, as in metrics.
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
		failed:  failedVerdict,
		failure: func(v *verdict) string { return v.err },
	})
	add(mux, e, verb[extenderv1.ExtenderArgs, *ranking]{name: VerbPrioritize, answer: e.prioritize})
	if e.settings.Mode == extender.ModeAdvisory {
		return mux
	}
	add(mux, e, verb[extenderv1.ExtenderPreemptionArgs, *extenderv1.ExtenderPreemptionResult]{name: VerbPreempt, answer: e.preempt})
	add(mux, e, verb[extenderv1.ExtenderBindingArgs, *extenderv1.ExtenderBindingResult]{
		name: VerbBind, answer: e.bind, atOnce: bindsAtOnce, maxBody: maxBindBody,
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
	// failed is how an answer says that the call has failed, so that the pod's
	// user reads why: of other statuses than 200 kube-scheduler shows but the
	// number. nil where answers cannot say so.
	failed func(error) Result
	// failure is what failed said; "" for none.
	failure func(Result) string

	atOnce  int
	maxBody int64
}

// add serves a verb.
func add[Args, Result any](mux *http.ServeMux, e *Extender, v verb[Args, Result]) {
	if v.atOnce == 0 {
		v.atOnce = atOnce
	}
	if v.maxBody == 0 {
		v.maxBody = *e.settings.Serving.MaxBodyBytes
	}
	places := make(chan struct{}, v.atOnce)
	mux.HandleFunc("POST /"+v.name, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		outcome := outcomePanic
		defer func() { metrics.ObserveExtenderRequest(v.name, outcome, time.Since(start)) }()
		limit := e.settings.Timeouts.Verb.Duration
		ctx, cancel := context.WithTimeoutCause(r.Context(), limit, fmt.Errorf("%s took longer than %s (timeouts.verb)", v.name, limit))
		defer cancel()
		// Whoever sends or reads slowly does not get more time for it.
		control, deadline := http.NewResponseController(w), start.Add(limit)
		_ = control.SetReadDeadline(deadline)                  // not all connections know deadlines
		_ = control.SetWriteDeadline(deadline.Add(answerTime)) // and these are bounded by the server
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
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

// answerTime is what writing an answer may take beyond the deadline of the call,
// for one that says that the deadline has passed.
const answerTime = time.Second

// call reads the arguments and answers. A panic is an error, and is logged.
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

// panicError is what is left of a panic.
type panicError struct{ verb string }

func (e *panicError) Error() string { return e.verb + " met a fault of the extender; see its log" }

// recovered makes an error of what recover returned.
func recovered(ctx context.Context, verb string, what any) error {
	if what == nil {
		return nil
	}
	err := &panicError{verb}
	klog.FromContext(ctx).Error(err, "Panic", "verb", verb, "panic", fmt.Sprint(what), "stack", string(debug.Stack()))
	return err
}

// tooLargeError is a body beyond its limit.
type tooLargeError struct{ limit int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the request's body has more than %d bytes: set nodeCacheCapable: true in the scheduler's configuration, or raise serving.maxBodyBytes in the extender's", e.limit)
}

// malformedError is a body that is not the verb's arguments.
type malformedError struct{ err error }

func (e *malformedError) Error() string { return "read the request: " + e.err.Error() }

// read decodes a body of at most limit bytes.
func read(body io.Reader, limit int64, into any) error {
	text := getBuffer()
	defer putBuffer(text) // what is decoded is copied
	n, err := text.ReadFrom(io.LimitReader(body, limit+1))
	if n > limit {
		_, _ = io.CopyN(io.Discard, body, drain) // its end, or the connection's
		return &tooLargeError{limit}
	}
	if err != nil {
		return &malformedError{err}
	}
	if err := decode(text.Bytes(), into); err != nil {
		return &malformedError{err}
	}
	return nil
}

// respond says why there is no answer, and returns the outcome for metrics.
func respond[Args, Result any](ctx context.Context, w http.ResponseWriter, v verb[Args, Result], why error) string {
	status, outcome := http.StatusInternalServerError, outcomeError
	var tooLarge *tooLargeError
	var malformed *malformedError
	var panicked *panicError
	switch {
	case errors.As(why, &tooLarge):
		status, outcome = http.StatusRequestEntityTooLarge, outcomeTooLarge
	case ctx.Err() != nil:
		status, outcome = http.StatusGatewayTimeout, outcomeEnded
	case errors.As(why, &malformed):
		status, outcome = http.StatusBadRequest, outcomeMalformed
	case errors.As(why, &panicked):
		outcome = outcomePanic
	case errors.Is(why, errNotReady):
		status, outcome = http.StatusServiceUnavailable, outcomeNotReady
	}
	klog.FromContext(ctx).V(2).Info("Could not answer the scheduler", "verb", v.name, "outcome", outcome, "err", why)
	if v.failed != nil && outcome != outcomeMalformed {
		_ = write(w, v.failed(why)) // the caller is gone
		return outcome
	}
	http.Error(w, why.Error(), status)
	return outcome
}

// write writes an answer, which is not used after it.
func write(w http.ResponseWriter, result any) error {
	buffer := getBuffer()
	defer putBuffer(buffer)
	err := encode(buffer, result)
	if own, ok := result.(interface{ free() }); ok {
		own.free()
	}
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, err = w.Write(buffer.Bytes())
	return err
}
