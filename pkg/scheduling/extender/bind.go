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
	"stowage.dev/stowage/pkg/scheduling/volumecache/attempt"
)

// Outcomes of a bind, as metric labels.
const (
	bindBound        = "bound"
	bindProvisioning = "provisioning"
	bindConflict     = "conflict"
	bindError        = "error"
)

// bind binds the pod's claims and then the pod. The scheduler retries after an error, and
// shows it in the pod's events.
//
// It answers before the call's deadline even if the API server does not respond: the bind
// then continues in the background, and until it ends the pod is pinned to its node and
// other calls for it are rejected.
func (e *Extender) bind(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (*extenderv1.ExtenderBindingResult, error) {
	if args.PodUID == "" || args.PodName == "" || args.PodNamespace == "" || args.Node == "" {
		return nil, malformed(errors.New("PodName, PodNamespace, PodUID and Node must be set"))
	}
	if err := e.pins.begin(args.PodUID, args.Node); err != nil {
		return nil, err
	}
	// Shorter than the call's deadline, so that the answer is the error of the bind
	// itself.
	limited, cancel := context.WithTimeoutCause(ctx, e.settings.Timeouts.Verb.Duration*7/8, errBindTime)
	ended := make(chan error, 1)
	e.binding.Go(func() {
		defer cancel()
		ended <- e.runBind(limited, args)
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

// runBind binds a pod that is pinned to the node.
func (e *Extender) runBind(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (err error) {
	outcome, end := bindError, e.gate.beginBind()
	defer func() {
		err = errors.Join(err, recovered(ctx, VerbBind, recover()))
		end()
		e.gate.bindReserved(args.PodUID)
		e.pins.end(args.PodUID, outcome == bindProvisioning)
		metrics.CountExtenderBind(outcome)
	}()
	// Before the pod is read: an informer may deliver its deletion at any time after.
	defer e.cache.ExpectPod(types.NamespacedName{Namespace: args.PodNamespace, Name: args.PodName}, args.PodUID)()
	pod, err := e.getPod(ctx, args)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		err = e.bindAll(ctx, pod, args.Node)
	} else if pod.Spec.NodeName != args.Node {
		err = fmt.Errorf("pod is on node %q already", pod.Spec.NodeName)
	}
	outcome = bindOutcome(err)
	klog.FromContext(ctx).V(2).Info("Bind ended", logkeys.Pod, klog.KObj(pod), logkeys.Node, klog.KRef("", args.Node), "outcome", outcome, "err", err)
	return err
}

// bindOutcome returns the metric label of an error.
func bindOutcome(err error) string {
	var waiting *binder.ProvisioningError
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

// getPod returns the pod of the call, from the API server if the informer does not have
// it.
func (e *Extender) getPod(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (*v1.Pod, error) {
	pod, err := e.pods.Pods(args.PodNamespace).Get(args.PodName)
	if err != nil || pod.UID != args.PodUID {
		pod, err = e.client.CoreV1().Pods(args.PodNamespace).Get(ctx, args.PodName, metav1.GetOptions{})
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("get pod %s/%s: %w", args.PodNamespace, args.PodName, err)
	case pod.UID != args.PodUID:
		return nil, fmt.Errorf("pod %s/%s was deleted and recreated", args.PodNamespace, args.PodName)
	case pod.DeletionTimestamp != nil:
		return nil, fmt.Errorf("pod %s/%s is being deleted", args.PodNamespace, args.PodName)
	case len(e.settings.SchedulerNames) > 0 && !slices.Contains(e.settings.SchedulerNames, pod.Spec.SchedulerName):
		return nil, fmt.Errorf("pod %s/%s is of scheduler %q, which is not among schedulerNames", args.PodNamespace, args.PodName, pod.Spec.SchedulerName)
	}
	return pod, nil
}

// bindAll reserves, waits for its turn among the concurrent binds, and writes.
func (e *Extender) bindAll(ctx context.Context, pod *v1.Pod, node string) error {
	planned := &plan.Plan{}
	if claims.Any(pod) {
		var err error
		if planned, err = e.reserve(ctx, pod, node); err != nil {
			return err
		}
		// For the duration of the call: afterwards the API objects replace the
		// reservation, and the cache already has them as the API server returned them.
		defer e.cache.Release(pod.UID)
	}
	e.gate.bindReserved(pod.UID)
	return e.gate.write(ctx, func() error {
		err := e.binder.Advance(ctx, planned)
		if waiting, ok := errors.AsType[*binder.ProvisioningError](err); ok {
			return fmt.Errorf("volumes are being provisioned; the pod is retried until they exist: %w", waiting)
		}
		if err != nil {
			return err
		}
		return e.bindPod(ctx, pod, node)
	})
}

// conflictError means that the node no longer has what Filter found there.
type conflictError struct {
	node string
	why  match.Reason
}

func (e *conflictError) Error() string {
	return fmt.Sprintf("volumes on node %q changed while the pod was being scheduled: %s", e.node, e.why.Code)
}

// reserve reserves the pod's volumes and capacity on the node.
func (e *Extender) reserve(ctx context.Context, pod *v1.Pod, node string) (*plan.Plan, error) {
	begun, refusal, err := attempt.Begin(ctx, e.cache, pod)
	if err := errors.Join(err, refusal); err != nil {
		return nil, err
	}
	planned, reason := e.cache.Reserve(begun.Demand, node)
	if reason.Code != match.Fits {
		return nil, &conflictError{node, reason}
	}
	return planned, nil
}

// bindPod binds the pod to the node.
func (e *Extender) bindPod(ctx context.Context, pod *v1.Pod, node string) error {
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	err := e.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	// An earlier call whose answer was lost may have bound it.
	if apierrors.IsConflict(err) {
		live, getErr := e.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if getErr == nil && live.UID == pod.UID && live.Spec.NodeName == node {
			return nil
		}
	}
	return fmt.Errorf("bind pod %s/%s to node %q: %w", pod.Namespace, pod.Name, node, err)
}
