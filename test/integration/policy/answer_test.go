// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"stowage.dev/stowage/pkg/apis/wellknown"
)

// refusal is the denial of a policy; the zero value is an allowed request.
type refusal struct {
	policy string // anyPolicy, if several refuse: the API server names one of them
	says   string // part of its message
}

// Whose refusal it is.
var (
	volumes    = func(says string) refusal { return refusal{"stowage-provisioner-volumes'", says} }
	placement  = func(says string) refusal { return refusal{"stowage-provisioner-placement'", says} }
	either     = func(says string) refusal { return refusal{anyPolicy, says} }
	reports    = func(says string) refusal { return refusal{"stowage-provisioner-reports'", says} }
	localDisks = func(says string) refusal { return refusal{"stowage-provisioner-disks'", says} }
	heartbeat  = func(says string) refusal { return refusal{"stowage-provisioner-heartbeats'", says} }
	nodes      = func(says string) refusal { return refusal{"stowage-provisioner-nodes'", says} }

	allowed       = refusal{}
	withoutParams = placement("no params found")
)

const anyPolicy = "stowage-provisioner-"

// noNode is what all policies say of a token that no pod has.
const noNode = "the token names no node"

// check compares an answer of the API server with the expected one.
func (r refusal) check(err error) error {
	if r == allowed {
		return err
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Errorf("got %w, want a refusal by policy %s", err, r.policy)
	}
	message := status.Status().Message
	if !strings.Contains(message, "ValidatingAdmissionPolicy '"+r.policy) || !strings.Contains(message, r.says) {
		return fmt.Errorf("got %w, want a refusal by policy %s with message %q", err, r.policy, r.says)
	}
	// The API server reports a policy's own errors as Invalid.
	if !apierrors.IsForbidden(err) && r != withoutParams {
		return fmt.Errorf("got %w, which is not Forbidden", err)
	}
	return nil
}

func (r refusal) want(t *testing.T, err error) {
	t.Helper()
	if err := r.check(err); err != nil {
		t.Error(err)
	}
}

// eventually retries until the answer is the expected one. The API server sends no event
// when it applies a new policy, parameter or role, so this polls.
func eventually(ctx context.Context, want refusal, ask func(context.Context) error) error {
	var last error
	//nolint:forbidigo // There is nothing to watch.
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, waitTimeout, true, func(ctx context.Context) (bool, error) {
		last = want.check(ask(ctx))
		return last == nil, nil
	})
	return errors.Join(err, last)
}

// dryRun has all checks done and nothing stored.
var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// waitForPolicies returns when all policies, their parameters and the provisioners'
// rights are in force.
func (b *env) waitForPolicies(ctx context.Context) error {
	misplaced, unlabelled := volume(alpha, beta), volume(alpha, alpha)
	delete(unlabelled.Labels, wellknown.NodeLabel)
	untainted := func(ctx context.Context, node string) error {
		return b.provisioners[alpha].patchNode(ctx, node, `{"spec":{"taints":null}}`)
	}
	for _, probe := range []struct {
		want refusal
		ask  func(context.Context) error
	}{
		{volumes("label"), b.provisioners[alpha].creates(unlabelled)},
		{placement("hostname"), b.provisioners[alpha].creates(misplaced)},
		{allowed, b.provisioners[gamma].creates(volume(gamma, gammaHost))},
		{reports("own report"), b.provisioners[alpha].createsReport(report(beta, beta, 1))},
		{allowed, b.provisioners[alpha].createsReport(report(alpha, alpha, 1))},
		{heartbeat("stowage-node-lease only"), b.provisioners[alpha].createsLease(lease(beta, beta))},
		{nodes("no other node"), func(ctx context.Context) error { return untainted(ctx, beta) }},
		{nodes("startup taints only"), func(ctx context.Context) error { return untainted(ctx, alpha) }},
	} {
		if err := eventually(ctx, probe.want, probe.ask); err != nil {
			return fmt.Errorf("wait for the policies: %w", err)
		}
	}
	return nil
}
