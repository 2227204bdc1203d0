// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"strings"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
)

// pvController names both controllers that it may be: which one binds claims is not seen in objects that users can read.
const pvController = "the PV controller (kube-controller-manager, or stowage-controller with claimBinder.inPlace)"

// waits are what is waited for, with the name if there is one.
var waits = map[v1alpha1.WaitKind][2]string{
	v1alpha1.WaitConsumer:      {"a pod that uses it", "a pod that uses it"},
	v1alpha1.WaitScheduler:     {"the scheduler", "the scheduler, to place pod %s"},
	v1alpha1.WaitProvisioner:   {"the provisioner", "%s"},
	v1alpha1.WaitPVController:  {pvController, pvController + ", for %s"},
	v1alpha1.WaitKubelet:       {"kubelet", "kubelet and node service of %s"},
	v1alpha1.WaitCleaning:      {"the removal of data", "the removal of data on %s"},
	v1alpha1.WaitController:    {"stowage-controller", "stowage-controller"},
	v1alpha1.WaitDiskUser:      {"the end of another use of the disk", "the end of another use of the disk on %s"},
	v1alpha1.WaitPods:          {"the end of pods", "the end of the use by %s"},
	v1alpha1.WaitNode:          {"the node", "node %s"},
	v1alpha1.WaitAdministrator: {"an administrator", "an administrator"},
}

// waitText returns what has to happen next, in words.
func waitText(w *v1alpha1.Wait) string {
	text := waits[w.For][0]
	if w.Name != "" {
		text = waits[w.For][1]
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, w.Name)
		}
	}
	if w.Steps > 0 {
		text += fmt.Sprintf(", step %d of %d", w.Step, w.Steps)
	}
	if w.Reason != "" {
		text += " (" + w.Reason + ")"
	}
	switch {
	case w.Until == nil:
	case w.For == v1alpha1.WaitNode:
		text += ", until " + format.Time(w.Until.Time)
	default:
		text += ", next attempt at " + format.Time(w.Until.Time)
	}
	return text
}
