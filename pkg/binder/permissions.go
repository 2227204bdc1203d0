// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

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
