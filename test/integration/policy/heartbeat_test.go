// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/localdisk/diskreports"
)

// lease is the heartbeat of a node's provisioner.
func lease(name, holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: diskreports.HeartbeatNamespace,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: holder, UID: "1"}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
}

// createsLease makes the request a function, tried without storing anything.
func (u *user) createsLease(l *coordinationv1.Lease) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := u.CoordinationV1().Leases(l.Namespace).Create(ctx, l, dryRun)
		return err
	}
}

// TestHeartbeat: a provisioner creates and renews the Lease of its own node. If it could renew
// another node's, a failed provisioner there would go unnoticed.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	const own = "of namespace stowage-node-lease only"
	tests := map[string]struct {
		by    *user // nil: gamma's provisioner
		lease *coordinationv1.Lease
		forge func(*coordinationv1.Lease)
		want  refusal
	}{
		"its own":                   {lease: lease(gamma, gamma)},
		"another node's":            {lease: lease(beta, gamma), want: heartbeat(own)},
		"its own, held by another":  {lease: lease(gamma, beta), want: heartbeat("holderIdentity")},
		"its own, held by none":     {lease: lease(gamma, gamma), forge: func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }, want: heartbeat("holderIdentity")},
		"with another node's owner": {lease: lease(gamma, gamma), forge: func(l *coordinationv1.Lease) { l.OwnerReferences[0].Name = beta }, want: heartbeat("only owner")},
		"with a finalizer":          {lease: lease(gamma, gamma), forge: func(l *coordinationv1.Lease) { l.Finalizers = []string{"example.com/held"} }, want: heartbeat("without finalizers")},
		"of the controller's election, were it granted": {
			by: shared.privileged[gamma], lease: lease("stowage-controller", gamma), forge: func(l *coordinationv1.Lease) { l.Namespace = namespace }, want: heartbeat(own),
		},
		"with a token of no pod": {by: shared.unbound, lease: lease(gamma, gamma), want: heartbeat(noNode)},
		"by an administrator":    {by: shared.admin, lease: lease(beta, gamma)},
		"by another user":        {by: shared.others, lease: lease(beta, gamma)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := shared.provisioners[gamma]
			if test.by != nil {
				by = test.by
			}
			if test.forge != nil {
				test.forge(test.lease)
			}
			test.want.want(t, by.createsLease(test.lease)(t.Context()))
		})
	}
	t.Run("renewed", func(t *testing.T) {
		t.Parallel()
		leases := func(by *user) *coordinationv1.Lease {
			l, err := by.CoordinationV1().Leases(diskreports.HeartbeatNamespace).Get(t.Context(), alpha, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			now := metav1.NowMicro()
			l.Spec.RenewTime = &now
			return l
		}
		if _, err := shared.provisioners[alpha].CoordinationV1().Leases(diskreports.HeartbeatNamespace).Create(t.Context(), lease(alpha, alpha), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := shared.provisioners[beta].CoordinationV1().Leases(diskreports.HeartbeatNamespace).Update(t.Context(), leases(shared.admin), metav1.UpdateOptions{})
		heartbeat(own).want(t, err)
		_, err = shared.provisioners[alpha].CoordinationV1().Leases(diskreports.HeartbeatNamespace).Update(t.Context(), leases(shared.provisioners[alpha]), metav1.UpdateOptions{})
		allowed.want(t, err)
	})
}
