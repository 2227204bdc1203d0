// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-helpers/auth/rbac/validation"

	"stowage.dev/stowage/pkg/inspect/install"
)

const (
	// noNamespace is not valid as the name of a namespace, so no RoleBinding adds rules to those of the whole cluster.
	noNamespace = "no.namespace"
	// reviewsAtOnce is the number of access reviews that are requested at a time for a user.
	reviewsAtOnce = 8
)

// reviewRights returns which rights users have, by user: needs are those that they need. As each of them it only creates
// reviews, which the API server answers and does not store. Users that the plugin's user may not impersonate are left
// out.
func (c *cluster) reviewRights(ctx context.Context, needs map[string]install.Rules) (map[string]install.Rules, error) {
	if c.from != "" {
		return nil, nil
	}
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	if config.Impersonate.UserName != "" {
		return nil, nil // a request impersonates one user only, which is that of --as
	}
	config.QPS = -1 // bounded by reviewsAtOnce
	reviewed := map[string]install.Rules{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for user, need := range needs {
		as := rest.CopyConfig(config)
		as.Impersonate.UserName = user // the API server adds the groups of a service account
		group.Go(func() error {
			client, err := authorizationclient.NewForConfig(as)
			if err != nil {
				return fmt.Errorf("make a client: %w", err)
			}
			rules, err := review(ctx, client, need)
			if refusal := apierrors.APIStatus(nil); errors.As(err, &refusal) {
				return nil // forbidden, or a proxy does not pass it on
			}
			if err != nil {
				return fmt.Errorf("review the rights of %s: %w", user, err)
			}
			mu.Lock()
			defer mu.Unlock()
			reviewed[user] = rules
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return reviewed, nil
}

// review returns the rights of the client's user in the namespaces of need. Not all authorizers can list them, such as
// webhooks: then each right of need is reviewed, which also shows those that are denied.
func review(ctx context.Context, client authorizationclient.AuthorizationV1Interface, need install.Rules) (install.Rules, error) {
	rules := install.Rules{}
	for namespace := range need {
		request := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: cmp.Or(namespace, noNamespace)}}
		answer, err := client.SelfSubjectRulesReviews().Create(ctx, request, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if answer.Status.Incomplete {
			return reviewEach(ctx, client, need)
		}
		rules[namespace] = policyRules(&answer.Status)
	}
	return rules, nil
}

// policyRules are the rules of a review as those of a role.
func policyRules(status *authorizationv1.SubjectRulesReviewStatus) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, r := range status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
	}
	for _, r := range status.NonResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
	}
	return rules
}

// reviewEach returns the rights of need that the client's user has, by one request for each.
func reviewEach(ctx context.Context, client authorizationclient.AuthorizationV1Interface, need install.Rules) (install.Rules, error) {
	rules := install.Rules{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsAtOnce)
	for namespace, wanted := range need {
		for _, rule := range wanted {
			for _, single := range validation.BreakdownRule(rule) {
				group.Go(func() error {
					answer, err := client.SelfSubjectAccessReviews().Create(ctx, accessReview(namespace, single), metav1.CreateOptions{})
					if err != nil {
						return err
					}
					if answer.Status.Allowed {
						mu.Lock()
						defer mu.Unlock()
						rules[namespace] = append(rules[namespace], single)
					}
					return nil
				})
			}
		}
	}
	return rules, group.Wait()
}

// accessReview is the request about a rule with one verb for one thing.
func accessReview(namespace string, rule rbacv1.PolicyRule) *authorizationv1.SelfSubjectAccessReview {
	review := &authorizationv1.SelfSubjectAccessReview{}
	if len(rule.NonResourceURLs) > 0 {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: rule.NonResourceURLs[0], Verb: rule.Verbs[0]}
		return review
	}
	resource, sub, _ := strings.Cut(rule.Resources[0], "/")
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: sub,
	}
	if len(rule.ResourceNames) > 0 {
		review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
	}
	return review
}
