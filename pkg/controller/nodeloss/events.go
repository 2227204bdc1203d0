// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Reasons of events; they are stable.
const (
	eventLost           = "VolumeLost"
	eventInvalid        = "InvalidNodeLoss"
	eventNotRecreatable = "ClaimNotRecreatable"
	eventThrottled      = "ReleaseThrottled"
	eventReleasing      = "ReleasingClaim"
	eventReleased       = "ClaimReleased"
	eventRemoved        = "VolumeRemoved"
	eventWouldRelease   = "WouldReleaseClaim"
	eventWouldRemove    = "WouldRemoveVolume"
)

// actionRelease is the action of events about releases and removals. Events about the state of
// a volume have the state as action.
const actionRelease = "ReleaseLostVolume"

// message is the content of an event.
type message struct{ reason, action, note string }

// recordState reports a changed state of a lost volume: in metrics, and as an event on the claim
// and its pods, or on the volume if it has no claim.
func (c *Controller) recordState(f *volumeFacts, d rules.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := f.volume.Name
	if d.Cause == "" {
		c.setState(name, lossState{})
		delete(c.lastEvents, name)
		return
	}
	c.setState(name, lossState{string(d.Cause), string(d.State)})
	reason, note := c.stateEvent(f, d)
	news := reason + note
	if reason == "" || c.lastEvents[name] == news {
		return
	}
	c.lastEvents[name] = news
	m := message{reason, string(d.State), note}
	if f.claim == nil {
		c.event(f.volume, nil, m)
		return
	}
	c.event(f.claim, f.volume, m)
	if reason == eventLost || reason == eventWouldRelease {
		c.eventOnPods(f, m)
	}
	if reason == eventWouldRelease {
		c.event(f.volume, f.claim, m)
	}
	if class, found := strings.CutPrefix(f.Terms.Problem, "StorageClass "); found && reason == eventInvalid {
		class, _, _ = strings.Cut(class, " ")
		c.event(&corev1.ObjectReference{Kind: "StorageClass", APIVersion: "storage.k8s.io/v1", Name: class, UID: types.UID(class)}, nil, m)
	}
}

// stateEvent returns the event for the state of a volume; an empty reason for no event.
func (c *Controller) stateEvent(f *volumeFacts, d rules.Decision) (reason, note string) {
	why := fmt.Sprintf("volume %s is unreachable since %s: %s", f.volume.Name, d.Since.UTC().Format(time.RFC3339), c.causeText(f, d.Cause))
	switch d.State {
	case rules.Waiting:
		if d.Do == rules.MarkLost {
			return "", "" // reported after the mark is written
		}
		then := "the volume will be removed"
		if f.claim != nil {
			then = "the claim will be deleted and recreated with another volume"
		}
		return eventLost, fmt.Sprintf("%s; %s after %s", why, then, d.Due.UTC().Format(time.RFC3339))
	case rules.Kept:
		if f.claim == nil {
			return eventLost, why + "; the volume stays until an administrator deletes its PavVolume because " + wellknown.NodeLossAnnotation + " is Keep"
		}
		return eventLost, why + "; the claim is kept and waits for the volume because " + wellknown.NodeLossAnnotation + " is Keep"
	case rules.Invalid:
		return eventInvalid, why + "; the claim is kept because of an invalid annotation: " + d.Message
	case rules.NotRecreatable:
		return eventNotRecreatable, why + "; the claim is kept because nothing would recreate it: " + d.Message
	case rules.Throttled:
		return eventThrottled, fmt.Sprintf("%s; the claim waits: at most %d claims are released per minute", why, *c.Settings.ReleasesPerMinute)
	case rules.Retained:
		return eventLost, why + "; its reclaim policy is not Delete: it stays until an administrator deletes it"
	case rules.Unidentified:
		if d.Message != "" {
			return eventLost, why + "; the volume stays because " + d.Message + ", and a tombstone would have that disk cleaned: kubectl stowage release removes the volume"
		}
		return eventLost, why + "; the volume stays because it has no disk identity, so no provisioner would find its disk to clean it: kubectl stowage release removes the volume"
	case rules.Blocked:
		if d.Message == "" {
			return "", ""
		}
		return eventLost, why + "; the volume stays and waits " + d.Message
	}
	if !c.Settings.DryRun {
		return "", ""
	}
	switch d.State {
	case rules.Releasing:
		return c.wouldRelease(f, d, why)
	case rules.Removing:
		return eventWouldRemove, why + "; the volume would be removed now (dry run), and " + c.wouldRemain(f)
	default:
		return "", ""
	}
}

// wouldRelease returns the event of a dry run with all consequences of a release.
func (c *Controller) wouldRelease(f *volumeFacts, d rules.Decision, why string) (reason, note string) {
	switch d.Do {
	case rules.BeginRelease, rules.DeleteClaim:
		pods, then := rules.AfterRelease(&f.Facts)
		with := ""
		if len(pods) > 0 {
			with = ", with " + namesOf(pods)
		}
		return eventWouldRelease, fmt.Sprintf("%s; the claim would be deleted now%s (dry run), and then %s", why, with, c.wouldBecome(f, then))
	case rules.DeletePods:
		return eventWouldRelease, why + "; " + namesOf(d.Pods) + " would be deleted now (dry run)"
	default:
		return "", ""
	}
}

// wouldBecome describes what would happen to the volume after its claim.
func (c *Controller) wouldBecome(f *volumeFacts, then rules.Decision) string {
	switch {
	case then.State == rules.Removing:
		return "the volume would be removed, and " + c.wouldRemain(f)
	case then.State == rules.Retained:
		return "the volume would stay until an administrator deletes it, because its reclaim policy is not Delete"
	case then.State == rules.Unidentified && then.Message != "":
		return "the volume would stay because " + then.Message
	case then.State == rules.Unidentified:
		return "the volume would stay because it has no disk identity"
	default:
		return "the volume would be " + string(then.State)
	}
}

// wouldRemain describes what would remain of the volume.
func (c *Controller) wouldRemain(f *volumeFacts) string {
	if f.Provisioned {
		return "what is left of it would stay on node " + f.node
	}
	then := "cleaned"
	if f.Volume.Policy != disk.Delete {
		then = "kept with its data"
	}
	return fmt.Sprintf("a tombstone would have the disk %s on any node where it appears", then)
}

// namesOf lists pods in order.
func namesOf(pods []rules.Pod) string {
	var names []string
	for _, pod := range pods {
		names = append(names, "pod "+pod.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// causeText describes a cause for users.
func (c *Controller) causeText(f *volumeFacts, cause rules.Cause) string {
	switch cause {
	case rules.NodeGone:
		return "node " + f.node + " is gone"
	case rules.NodeOutOfService:
		return "node " + f.node + " is out of service"
	case rules.MissingDisk:
		return "its disk is missing from node " + f.node
	case rules.FailingDisk:
		return "its disk is failing on node " + f.node
	default:
		return "another disk has replaced it on node " + f.node
	}
}

// eventOnClaim records an event on the claim and its pods.
func (c *Controller) eventOnClaim(f *volumeFacts, m message) {
	c.event(f.claim, f.volume, m)
	c.eventOnPods(f, m)
}

func (c *Controller) eventOnPods(f *volumeFacts, m message) {
	for _, pod := range f.Pods {
		c.event(podReference(pod), f.volume, m)
	}
}

func podReference(pod rules.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID)}
}

// event records an event. Releases and removals are Normal, all else is a Warning.
func (c *Controller) event(about, related runtime.Object, m message) {
	kind := corev1.EventTypeWarning
	switch m.reason {
	case eventReleased, eventRemoved, eventReleasing:
		kind = corev1.EventTypeNormal
	}
	if meta, ok := related.(metav1.Object); !ok || meta == nil {
		related = nil
	}
	c.Events.Eventf(about, related, kind, m.reason, m.action, "%s", m.note)
}
