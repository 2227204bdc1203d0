// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

// rightsTimeout bounds the review of the rights for Direct.
const rightsTimeout = 10 * time.Second

// Permitted returns the configured mode, or PVController if that is Direct and the client
// lacks the rights for it, which is logged and recorded in a metric.
func Permitted(ctx context.Context, client kubernetes.Interface, configured Mode) Mode {
	if configured != Direct {
		return configured
	}
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	missing, err := Allowed(ctx, client)
	logger := klog.FromContext(ctx)
	switch {
	case err != nil:
		// Not denied; the error of a write that is will have the reason.
		logger.Error(err, "Failed to review the rights that bindingMode Direct needs; assuming them")
	case len(missing) > 0:
		metrics.SetDirectBindingDisabled(true)
		logger.Info("WARNING: bindingMode Direct is not allowed, leaving bindings to the PV controller; grant the missing rules or set bindingMode: PVController", logkeys.Missing, missing)
		return PVController
	}
	return Direct
}

// Allowed reviews the rights that Direct needs beyond those of the stock scheduler roles
// (system:kube-scheduler, system:volume-scheduler). It returns those that the client lacks,
// as "verb resource"; err means that the review failed.
func Allowed(ctx context.Context, client kubernetes.Interface) (missing []string, err error) {
	for _, resource := range []string{"persistentvolumes", "persistentvolumeclaims"} {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: "update", Resource: resource, Subresource: "status",
				},
			},
		}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("review the right to update %s/status: %w", resource, err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, "update "+resource+"/status")
		}
	}
	return missing, nil
}
