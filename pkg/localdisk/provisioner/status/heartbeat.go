// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/localdisk/diskreports"
)

// Heartbeats renews the node's Lease until ctx ends. Without that the controller sets condition
// Ready of the report to Unknown, so the report is written again after a heartbeat that may have
// been too late: after the first one, one that failed, or a long pause.
func (r *Reporter) Heartbeats(ctx context.Context) {
	var lease *coordinationv1.Lease
	failed := false
	for renewed := time.Now(); ; {
		next, err := r.heartbeat(ctx, lease)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			klog.FromContext(ctx).Error(err, "Failed to renew the Lease of the node's provisioner; retrying", "period", diskreports.HeartbeatInterval)
		}
		if err == nil {
			if lease == nil || time.Since(renewed) > diskreports.HeartbeatDuration/2 {
				r.outdated.Store(true)
				r.Changed()
			}
			renewed = time.Now()
		}
		lease, failed = next, err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.Jitter(diskreports.HeartbeatInterval, 0.1)):
		}
	}
}

// heartbeat renews the Lease, which is nil if it is not known. It returns the Lease as written,
// or nil with an error.
func (r *Reporter) heartbeat(ctx context.Context, last *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, diskreports.HeartbeatInterval)
	defer cancel()
	leases := r.Client.CoordinationV1().Leases(diskreports.HeartbeatNamespace)
	if last == nil {
		var err error
		last, err = leases.Get(ctx, r.Node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return r.firstHeartbeat(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("get Lease %s/%s: %w", diskreports.HeartbeatNamespace, r.Node, err)
		}
	}
	lease := last.DeepCopy()
	lease.Spec = r.leaseSpec()
	renewed, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update Lease %s/%s: %w", diskreports.HeartbeatNamespace, r.Node, err)
	}
	return renewed, nil
}

// firstHeartbeat creates the Lease. It is deleted with the Node.
func (r *Reporter) firstHeartbeat(ctx context.Context) (*coordinationv1.Lease, error) {
	node, err := r.Client.CoreV1().Nodes().Get(ctx, r.Node, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get node %s: %w", r.Node, err)
	}
	lease, err := r.Client.CoordinationV1().Leases(diskreports.HeartbeatNamespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: r.Node, Namespace: diskreports.HeartbeatNamespace,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: r.leaseSpec(),
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create Lease %s/%s: %w", diskreports.HeartbeatNamespace, r.Node, err)
	}
	return lease, nil
}

func (r *Reporter) leaseSpec() coordinationv1.LeaseSpec {
	now, seconds := metav1.NowMicro(), int32(diskreports.HeartbeatDuration/time.Second)
	return coordinationv1.LeaseSpec{HolderIdentity: &r.Node, LeaseDurationSeconds: &seconds, RenewTime: &now}
}
