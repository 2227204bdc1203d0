// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package chartvalues

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
)

const otherController = "Stowage's controller does its work with flags and needs of its own: remove it, and see controller in the values of Stowage's chart"

// cleanupRules are those of the node cleanup controller.
var cleanupRules = map[string]rule{
	"enabled":           {kind: boolean},
	"storageClassNames": {kind: list, convert: nothing}, // cleanUpNodes has them
	"pvcDeletionDelay":  {kind: text, convert: nothing},

	"nodeSelector":      {kind: object, to: "controller.nodeSelector"},
	"tolerations":       {kind: list, to: "controller.tolerations"},
	"affinity":          {kind: object, to: "controller.affinity"},
	"podAnnotations":    {kind: object, to: "controller.podAnnotations"},
	"podLabels":         {kind: object, to: "controller.podLabels"},
	"priorityClassName": {kind: text, to: "controller.priorityClassName"},
	"imagePullPolicy":   {kind: text, to: "controller.image.pullPolicy"},

	"image":                    {kind: text, lost: otherController},
	"imagePullSecrets":         {kind: list, lost: otherController},
	"replicas":                 {kind: number, same: int64(1), lost: otherController},
	"resources":                {kind: object, lost: otherController},
	"stalePVDiscoveryInterval": {kind: text, same: "10s", lost: otherController},
	"resync":                   {kind: text, same: "10m", lost: otherController},
	"workerThreads":            {kind: number, same: int64(10), lost: otherController},
	"listenAddress":            {kind: text, same: ":8080", lost: otherController},
	"metricsPath":              {kind: text, same: "/metrics", lost: otherController},
	"rbac":                     {kind: object, fields: map[string]rule{"create": {kind: boolean, same: true, lost: otherController}}},
	"serviceAccount": {kind: object, fields: map[string]rule{
		"create": {kind: boolean, same: true, lost: otherController},
		"name":   {kind: text, lost: otherController},
	}},
}

// defaultDelay is how long after its node the reference deletes a claim.
const defaultDelay = "60s"

// cleanUpNodes annotates the StorageClasses whose claims the node cleanup controller deletes.
func (c *conversion) cleanUpNodes(at *field.Path, value any) {
	values, _ := value.(map[string]any)
	classes, _ := values["storageClassNames"].([]any)
	if empty(values["enabled"]) || len(classes) == 0 {
		return
	}
	text, _ := values["pvcDeletionDelay"].(string)
	if text == "" {
		text = defaultDelay
	}
	if delay, err := time.ParseDuration(text); err != nil || delay < rules.MinDelay || delay > rules.MaxDelay {
		c.errs = append(c.errs, field.Invalid(at.Child("pvcDeletionDelay"), text, fmt.Sprintf("must be a duration of %s to %s", rules.MinDelay, rules.MaxDelay)))
	}
	annotations := map[string]any{wellknown.NodeLossAnnotation: rules.Release, wellknown.NodeLossDelayAnnotation: text}
	for i, class := range classes {
		class := fmt.Sprint(class)
		to := []string{"provisioner", "classes", class, "storageClass"}
		if created, _, _ := unstructured.NestedBool(c.out, append(to, "create")...); !created {
			c.warn(at.Child("storageClassNames").Index(i), fmt.Sprintf("the chart does not make StorageClass %s: annotate it with %s=%s and %s=%s",
				class, wellknown.NodeLossAnnotation, rules.Release, wellknown.NodeLossDelayAnnotation, text))
			continue
		}
		for name, value := range annotations {
			c.set(value, slices.Concat(to, []string{"annotations", name})...)
		}
	}
}
