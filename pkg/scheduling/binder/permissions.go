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

// rightsTimeout bounds the question whether Direct binding is allowed.
const rightsTimeout = 10 * time.Second

// Permitted is the mode asked for, or PVController where Direct is asked for and
// the client has not the rights for it; that is logged and shows in a metric.
func Permitted(ctx context.Context, client kubernetes.Interface, asked Mode) Mode {
	if asked != Direct {
		return asked
	}
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	missing, err := Allowed(ctx, client)
	logger := klog.FromContext(ctx)
	switch {
	case err != nil:
		// Nothing was denied; a write that is will say so itself.
		logger.Error(err, "Could not ask for the rights that bindingMode Direct needs, assuming them")
	case len(missing) > 0:
		metrics.SetDirectBindingDisabled(true)
		logger.Info("WARNING: bindingMode Direct is not allowed, leaving bindings to the PV controller; grant the missing rules or set bindingMode: PVController", logkeys.Missing, missing)
		return PVController
	}
	return Direct
}

// Allowed asks the API server for the rights that Direct needs beyond those of
// the stock scheduler roles (system:kube-scheduler, system:volume-scheduler).
// It returns the ones that the client does not have, as "verb resource"; err
// means that the question could not be answered.
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
			return nil, fmt.Errorf("ask for the right to update %s/status: %w", resource, err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, "update "+resource+"/status")
		}
	}
	return missing, nil
}
