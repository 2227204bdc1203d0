// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// pavVolume explains the PavVolume of a PersistentVolume, and where the volume is staged.
func (x *explainer) pavVolume(name string) {
	v := snapshot.Find[*stowage.PavVolume](x.s, "", name)
	if v != nil {
		x.relate("PavVolume", "", v.Name, "state of the volume", string(v.Status.Phase))
	}
	if v != nil && v.Status.Phase != stowage.PavVolumeProvisioned {
		x.say("Its PavVolume is %s.", v.Status.Phase)
		w := v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: v.Spec.Provisioner, Until: v.Status.RetryTime}
		w.Reason = x.condition(v.Status.Conditions, guide.PavVolumes, stowage.ConditionDeletable, stowage.ConditionProvisioned)
		x.pavFailure(v.Status.LastError, v.Status.RetryTime, w.Reason)
		x.wait(w)
		x.next("kubectl describe pavvol %s", v.Name)
		x.link(guide.Link(string(v.Status.Phase), guide.PavVolumes))
	} else if v != nil {
		x.condition(v.Status.Conditions, guide.PavVolumes, stowage.ConditionDeletable, stowage.ConditionNodeExists)
	}
	var stagings []*stowage.PavStaging
	for _, st := range snapshot.Of[*stowage.PavStaging](x.s) {
		if st.Status.VolumeName == name {
			stagings = append(stagings, st)
		}
	}
	slices.SortFunc(stagings, func(a, b *stowage.PavStaging) int { return cmp.Compare(a.Name, b.Name) })
	for _, st := range stagings {
		x.relate("PavStaging", "", st.Name, "on node "+st.Spec.NodeName, string(st.Status.Phase))
		if st.Status.Phase == stowage.PavStagingStaged {
			continue
		}
		x.say("On node %s it is %s.", st.Spec.NodeName, st.Status.Phase)
		reason := x.condition(st.Status.Conditions, guide.PavStagings, stowage.ConditionUnstageable, stowage.ConditionStaged)
		x.pavFailure(st.Status.LastError, st.Status.RetryTime, reason)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitKubelet, Name: st.Spec.NodeName, Reason: reason, Until: st.Status.RetryTime})
		x.next("kubectl describe pavstg %s", st.Name)
		x.link(guide.Link(string(st.Status.Phase), guide.PavStagings))
	}
}

// condition says the first of some conditions that is not True, and returns its reason.
func (x *explainer) condition(all []metav1.Condition, section guide.Section, types ...string) string {
	for _, t := range types {
		if c := meta.FindStatusCondition(all, t); c != nil && c.Status != metav1.ConditionTrue {
			x.say("%s is %s%s, %s: %s.", c.Type, c.Status, x.since(&c.LastTransitionTime), c.Reason, strings.TrimSuffix(cmp.Or(c.Message, "no message"), "."))
			x.link(guide.Link(c.Reason, section))
			return c.Reason
		}
	}
	return ""
}

// pavFailure says the last failure of a step, unless its reason was said, and when it is tried again.
func (x *explainer) pavFailure(e *stowage.PavVolumeError, retry *metav1.Time, said string) {
	if e != nil && e.Reason != said {
		x.say("The last failure%s was in step %s, %s: %s.", ago(&e.Time, x.now), e.Step, e.Reason, strings.TrimSuffix(e.Message, "."))
	}
	if retry != nil {
		x.say("It is tried again at %s.", format.Time(retry.Time))
	}
}
