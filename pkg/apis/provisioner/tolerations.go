// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

var tolerationKeys = []key[*corev1.Toleration]{
	{"key", readTolerationKey},
	{"operator", func(n node, t *corev1.Toleration) {
		set(&t.Operator)(oneOf(n, corev1.TolerationOpExists, corev1.TolerationOpEqual, corev1.TolerationOpLt, corev1.TolerationOpGt))
	}},
	{"value", func(n node, t *corev1.Toleration) { set(&t.Value)(n.text()) }},
	{"effect", func(n node, t *corev1.Toleration) {
		set(&t.Effect)(oneOf(n, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute))
	}},
	{"tolerationSeconds", func(n node, t *corev1.Toleration) {
		if seconds, ok := n.integer(0, math.MaxInt32); ok {
			t.TolerationSeconds = new(int64(seconds))
		}
	}},
}

func readTolerations(n node, config *Config) {
	items, _ := n.list("tolerations")
	for _, item := range items {
		if isEmpty(item.value) {
			item.failf("must be a toleration, and is empty")
			continue
		}
		var toleration corev1.Toleration
		before := len(*n.errs)
		readKeys(item, "the fields of a toleration", tolerationKeys, &toleration)
		if toleration.Key == "" && toleration.Operator != corev1.TolerationOpExists && len(*n.errs) == before {
			item.failf("must have a key: only operator Exists needs none")
		}
		config.JobTolerations = append(config.JobTolerations, toleration)
	}
}

func readTolerationKey(n node, toleration *corev1.Toleration) {
	taint, ok := n.text()
	if !ok {
		return
	}
	if faults := validation.IsQualifiedName(taint); len(faults) > 0 {
		n.failf("%q cannot be the key of a taint: %s", taint, faults[0])
		return
	}
	toleration.Key = taint
}
