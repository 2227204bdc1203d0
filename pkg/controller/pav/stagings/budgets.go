// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package stagings

import (
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/pav/helperpod"
)

// budgetName is the name of the PodDisruptionBudget in each namespace that has staging pods.
const budgetName = "stowage-pav-staging"

func isStaging(pod *corev1.Pod) bool {
	return pod.Labels[wellknown.PavStepLabel] == string(helperpod.Staging)
}

// reconcileBudget creates the PodDisruptionBudget of a namespace while that has staging pods, and deletes
// it afterwards. A drain evicts the users of a volume; its staging pod ends after they have.
func (c *Controller) reconcileBudget(ctx context.Context, namespace string) (time.Duration, error) {
	budgets := c.Client.PolicyV1().PodDisruptionBudgets(namespace)
	object, _, err := c.disruptions.GetStore().GetByKey(namespace + "/" + budgetName)
	if err != nil {
		return 0, steps.Wrap(err, "get PodDisruptionBudget %s/%s from the informer", namespace, budgetName)
	}
	budget, _ := object.(*policyv1.PodDisruptionBudget)
	needed := len(loop.List[corev1.Pod](c.Pods, byNamespace, namespace)) > 0
	want := policyv1.PodDisruptionBudgetSpec{
		// Neither a percentage nor maxUnavailable works for pods whose controller has no scale
		// (k8s.io/kubernetes/pkg/controller/disruption).
		MinAvailable: new(intstr.FromInt32(math.MaxInt32)),
		Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{wellknown.PavStepLabel: string(helperpod.Staging)}},
	}
	switch {
	case needed && budget == nil:
		_, err = budgets.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: budgetName, Namespace: namespace}, Spec: want}, metav1.CreateOptions{})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			err = nil // it deletes its pods
		}
	case needed && !equality.Semantic.DeepEqual(budget.Spec, want):
		budget = budget.DeepCopy()
		budget.Spec = want
		_, err = budgets.Update(ctx, budget, metav1.UpdateOptions{})
	case !needed && budget != nil:
		err = steps.Gone(budgets.Delete(ctx, budgetName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &budget.UID}}))
	}
	return 0, steps.Stale(steps.Wrap(err, "write PodDisruptionBudget %s/%s", namespace, budgetName))
}
