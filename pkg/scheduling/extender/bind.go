// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// Outcomes of a bind, as in metrics.
const (
	bindBound        = "bound"
	bindProvisioning = "provisioning"
	bindConflict     = "conflict"
	bindError        = "error"
)

// bind binds the pod's claims and then the pod. The error that it answers is for
// the scheduler, which tries again after a while, and for the pod's events.
//
// It answers in time even when the API server does not: the work then comes to
// its end by itself, and until it has, the pod is kept to its node and another
// call for it is turned away.
func (e *Extender) bind(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (*extenderv1.ExtenderBindingResult, error) {
	if args.PodUID == "" || args.PodName == "" || args.PodNamespace == "" || args.Node == "" {
		return nil, &malformedError{errors.New("PodName, PodNamespace, PodUID and Node must be set")}
	}
	if err := e.holds.begin(args.PodUID, args.Node); err != nil {
		return nil, err
	}
	// Less than the call has, so that the work's own words are the answer.
	limited, cancel := context.WithTimeoutCause(ctx, e.settings.Timeouts.Verb.Duration*7/8, errBindTime)
	ended := make(chan error, 1)
	e.binding.Go(func() {
		defer cancel()
		ended <- e.carryOut(limited, args)
	})
	select {
	case err := <-ended:
		if err != nil {
			return nil, err
		}
		return &extenderv1.ExtenderBindingResult{}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("binding pod %s/%s: %w", args.PodNamespace, args.PodName, context.Cause(ctx))
	}
}

var errBindTime = errors.New("the time for one call (timeouts.verb) has passed")

// carryOut is the work of a bind, from the hold on.
func (e *Extender) carryOut(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (err error) {
	outcome, end := bindError, e.gate.begin()
	defer func() {
		err = errors.Join(err, recovered(ctx, VerbBind, recover()))
		end()
		e.gate.came(args.PodUID)
		e.holds.end(args.PodUID, outcome == bindProvisioning)
		metrics.CountExtenderBind(outcome)
	}()
	// Before it is asked for: its end may be shown at any time after.
	defer e.cache.ExpectPod(types.NamespacedName{Namespace: args.PodNamespace, Name: args.PodName}, args.PodUID)()
	pod, err := e.podOf(ctx, args)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		err = e.bindAll(ctx, pod, args.Node)
	} else if pod.Spec.NodeName != args.Node {
		err = fmt.Errorf("pod is on node %q already", pod.Spec.NodeName)
	}
	outcome = bindOutcome(err)
	klog.FromContext(ctx).V(2).Info("Ended a bind", logkeys.Pod, klog.KObj(pod), logkeys.Node, klog.KRef("", args.Node), "outcome", outcome, "err", err)
	return err
}

// bindOutcome sorts an error into the metric's label.
func bindOutcome(err error) string {
	var waiting *provisioningError
	var taken *conflictError
	var failure *plan.Failure
	switch {
	case err == nil:
		return bindBound
	case errors.As(err, &waiting):
		return bindProvisioning
	case errors.As(err, &taken), errors.As(err, &failure):
		return bindConflict
	}
	return bindError
}

// podOf is the pod of the call, from the API server itself if it has not been
// seen yet.
func (e *Extender) podOf(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (*v1.Pod, error) {
	pod, err := e.pods.Pods(args.PodNamespace).Get(args.PodName)
	if err != nil || pod.UID != args.PodUID {
		pod, err = e.client.CoreV1().Pods(args.PodNamespace).Get(ctx, args.PodName, metav1.GetOptions{})
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("get pod %s/%s: %w", args.PodNamespace, args.PodName, err)
	case pod.UID != args.PodUID:
		return nil, fmt.Errorf("pod %s/%s was deleted and created anew", args.PodNamespace, args.PodName)
	case pod.DeletionTimestamp != nil:
		return nil, fmt.Errorf("pod %s/%s is being deleted", args.PodNamespace, args.PodName)
	case len(e.settings.SchedulerNames) > 0 && !slices.Contains(e.settings.SchedulerNames, pod.Spec.SchedulerName):
		return nil, fmt.Errorf("pod %s/%s is of scheduler %q, which is not among schedulerNames", args.PodNamespace, args.PodName, pod.Spec.SchedulerName)
	}
	return pod, nil
}

// bindAll reserves, and writes when few enough other binds do.
func (e *Extender) bindAll(ctx context.Context, pod *v1.Pod, node string) error {
	planned := &plan.Plan{}
	if claims.Any(pod) {
		var err error
		if planned, err = e.reserve(ctx, pod, node); err != nil {
			return err
		}
		// For the time of the call: afterwards the objects themselves say who
		// has what, and the engine has them as the API server returned them.
		defer e.cache.Release(pod.UID)
	}
	e.gate.came(pod.UID)
	return e.gate.write(ctx, func() error {
		err := e.binder.Advance(ctx, planned)
		if waiting, ok := errors.AsType[*binder.ProvisioningError](err); ok {
			return &provisioningError{waiting}
		}
		if err != nil {
			return err
		}
		return e.bindPod(ctx, pod, node)
	})
}

// conflictError says that the node no longer has what Filter saw there.
type conflictError struct {
	node string
	why  match.Reason
}

func (e *conflictError) Error() string {
	return fmt.Sprintf("volumes on node %q changed while the pod was being scheduled: %s", e.node, e.why.Code)
}

// provisioningError says that volumes are being made.
type provisioningError struct{ err *binder.ProvisioningError }

func (e *provisioningError) Error() string {
	return "volumes are being provisioned, the pod is tried again until they are there: " + e.err.Error()
}

// reserve takes what the pod gets on the node out of what others see.
func (e *Extender) reserve(ctx context.Context, pod *v1.Pod, node string) (*plan.Plan, error) {
	begun, refusal, err := e.attempts.Begin(ctx, pod)
	if err := errors.Join(err, refusal); err != nil {
		return nil, err
	}
	planned, reason := e.cache.Reserve(begun.Demand, node)
	if reason.Code != match.Fits {
		return nil, &conflictError{node, reason}
	}
	return planned, nil
}

// bindPod tells the API server the pod's node.
func (e *Extender) bindPod(ctx context.Context, pod *v1.Pod, node string) error {
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	err := e.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	// An earlier call whose answer was lost may have done it.
	if apierrors.IsConflict(err) {
		live, getErr := e.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if getErr == nil && live.UID == pod.UID && live.Spec.NodeName == node {
			return nil
		}
	}
	return fmt.Errorf("bind pod %s/%s to node %q: %w", pod.Namespace, pod.Name, node, err)
}
