// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

const fieldManager = "stowage-cleaning-jobs"

// applied is the applied part of a report.
type applied struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        appliedMeta   `json:"metadata"`
	Status          appliedStatus `json:"status"`
}

// appliedMeta names a report. The UID prevents a write to a recreated report.
type appliedMeta struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

type appliedStatus struct {
	Jobs []stowage.CleaningJob `json:"jobs,omitempty"`
}

// writeAnswers writes changed answers to the first page of a report.
func (c *Controller) writeAnswers(ctx context.Context, first *stowage.LocalDiskReport, answers []stowage.CleaningJob) error {
	if equality.Semantic.DeepEqual(first.Status.Jobs, answers) || len(first.Status.Jobs)+len(answers) == 0 {
		return nil
	}
	data, err := json.Marshal(applied{
		TypeMeta: metav1.TypeMeta{APIVersion: stowage.SchemeGroupVersion.String(), Kind: "LocalDiskReport"},
		Metadata: appliedMeta{Name: first.Name, UID: first.UID},
		Status:   appliedStatus{Jobs: answers},
	})
	if err != nil {
		return fmt.Errorf("encode the answers for LocalDiskReport %s: %w", first.Name, err)
	}
	_, err = c.Reports.Patch(ctx, first.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("apply answers to LocalDiskReport %s: %w", first.Name, err)
	}
	return nil
}
