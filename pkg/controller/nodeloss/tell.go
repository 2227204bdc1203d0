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

// Reasons of events, in words that stay the same from release to release.
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

// actionRelease is the action of events about what is done. Those about how a volume stands
// have its state: events that differ in their note alone count as one, with the first note.
const actionRelease = "ReleaseLostVolume"

// message is what an event says.
type message struct{ reason, action, note string }

// tell says how a lost volume stands, when that has changed: to metrics, and by an
// event on the claim and its pods, or on the volume if it has no claim.
func (c *Controller) tell(g *gathered, d rules.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := g.volume.Name
	if d.Cause == "" {
		c.stand(name, standing{})
		delete(c.told, name)
		return
	}
	c.stand(name, standing{string(d.Cause), string(d.State)})
	reason, note := c.words(g, d)
	news := reason + note
	if reason == "" || c.told[name] == news {
		return
	}
	c.told[name] = news
	m := message{reason, string(d.State), note}
	if g.claim == nil {
		c.event(g.volume, nil, m)
		return
	}
	c.event(g.claim, g.volume, m)
	if reason == eventLost || reason == eventWouldRelease {
		c.eventOnPods(g, m)
	}
	if reason == eventWouldRelease {
		c.event(g.volume, g.claim, m)
	}
	if class, found := strings.CutPrefix(g.Terms.Problem, "StorageClass "); found && reason == eventInvalid {
		class, _, _ = strings.Cut(class, " ")
		c.event(&corev1.ObjectReference{Kind: "StorageClass", APIVersion: "storage.k8s.io/v1", Name: class, UID: types.UID(class)}, nil, m)
	}
}

// words are the event that tells how a volume stands; no reason if there is nothing to
// tell.
func (c *Controller) words(g *gathered, d rules.Decision) (reason, note string) {
	why := fmt.Sprintf("volume %s cannot be reached since %s: %s", g.volume.Name, d.Since.UTC().Format(time.RFC3339), c.because(g, d.Cause))
	switch d.State {
	case rules.Waiting:
		if d.Do == rules.MarkLost {
			return "", "" // told once it is written down
		}
		then := "the volume will be removed"
		if g.claim != nil {
			then = "the claim will be deleted, to be made anew on another one,"
		}
		return eventLost, fmt.Sprintf("%s; %s after %s", why, then, d.Due.UTC().Format(time.RFC3339))
	case rules.Kept:
		return eventLost, why + "; the claim is kept and waits for it, as " + wellknown.NodeLossAnnotation + " is Keep"
	case rules.Invalid:
		return eventInvalid, why + "; the claim is kept, as what it asks for cannot be read: " + d.Message
	case rules.NotRecreatable:
		return eventNotRecreatable, why + "; the claim is kept, as nobody would make it again: " + d.Message
	case rules.Throttled:
		return eventThrottled, fmt.Sprintf("%s; the claim waits for its turn, as %d claims are released in a minute", why, *c.Settings.ReleasesPerMinute)
	case rules.Retained:
		return eventLost, why + "; its reclaim policy is not Delete, so it stays until an administrator deletes it"
	case rules.Unidentified:
		if d.Message != "" {
			return eventLost, why + "; it stays, as " + d.Message + ", and a tombstone would have that cleaned: stowage-provisioner release lets it go"
		}
		return eventLost, why + "; it does not say of which disk it is, so no agent would know to clean that: stowage-provisioner release lets it go"
	case rules.SomebodyElse:
		if d.Message == "" {
			return "", ""
		}
		return eventLost, why + "; it stays, and waits " + d.Message
	}
	if !c.DryRun() {
		return "", ""
	}
	switch d.State {
	case rules.Releasing:
		return c.wouldRelease(g, d, why)
	case rules.Removing:
		return eventWouldRemove, why + "; it would be removed now, if this were no dry run, and " + c.wouldRemain(g)
	default:
		return "", ""
	}
}

// wouldRelease are the words of a dry run on all that a release leads to.
func (c *Controller) wouldRelease(g *gathered, d rules.Decision, why string) (reason, note string) {
	switch d.Do {
	case rules.Begin, rules.DeleteClaim:
		pods, then := rules.AfterRelease(&g.Facts)
		with := ""
		if len(pods) > 0 {
			with = ", with " + namesOf(pods)
		}
		return eventWouldRelease, fmt.Sprintf("%s; the claim would be deleted now%s, if this were no dry run, and then %s", why, with, c.wouldBecome(g, then))
	case rules.DeletePods:
		return eventWouldRelease, why + "; " + namesOf(d.Pods) + " would be deleted now, if this were no dry run"
	default:
		return "", ""
	}
}

// wouldBecome is what would become of the volume after its claim.
func (c *Controller) wouldBecome(g *gathered, then rules.Decision) string {
	switch {
	case then.State == rules.Removing:
		return "the volume would be removed, and " + c.wouldRemain(g)
	case then.State == rules.Retained:
		return "the volume would stay until an administrator deletes it, as its reclaim policy is not Delete"
	case then.State == rules.Unidentified && then.Message != "":
		return "the volume would stay, as " + then.Message
	case then.State == rules.Unidentified:
		return "the volume would stay, as it does not say of which disk it is"
	default:
		return "the volume would be " + string(then.State)
	}
}

// wouldRemain is what would remain of the volume.
func (c *Controller) wouldRemain(g *gathered) string {
	then := "cleaned"
	if g.Volume.Policy != disk.Delete {
		then = "kept with its data"
	}
	return fmt.Sprintf("a tombstone in LocalDiskReport %s would have the disk %s wherever it turns up", g.node, then)
}

// namesOf are pods in words, in order.
func namesOf(pods []rules.Pod) string {
	var names []string
	for _, pod := range pods {
		names = append(names, "pod "+pod.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// because is a cause for users.
func (c *Controller) because(g *gathered, cause rules.Cause) string {
	switch cause {
	case rules.NodeGone:
		return "node " + g.node + " is gone"
	case rules.NodeOutOfService:
		return "node " + g.node + " is out of service"
	case rules.MissingDisk:
		return "its disk is missing from node " + g.node
	case rules.FailingDisk:
		return "its disk is failing on node " + g.node
	default:
		return "another disk is in its place on node " + g.node
	}
}

func (c *Controller) tellReleasing(g *gathered) {
	note := fmt.Sprintf("deletes the claim, whose volume %s is lost with its data (%s), so that it is made anew", g.volume.Name, c.because(g, rules.CauseOf(&g.Facts)))
	c.eventOnClaim(g, message{eventReleasing, actionRelease, note})
}

func (c *Controller) tellReleased(g *gathered) {
	note := fmt.Sprintf("the claim was deleted, as its volume %s is lost", g.volume.Name)
	c.eventOnClaim(g, message{eventReleased, actionRelease, note})
}

func (c *Controller) tellPod(g *gathered, pod rules.Pod) {
	note := fmt.Sprintf("the pod was deleted to be made anew, as volume %s is lost", g.volume.Name)
	c.event(podReference(pod), g.volume, message{eventReleased, actionRelease, note})
}

func (c *Controller) tellRemoved(g *gathered) {
	note := fmt.Sprintf("removed: %s; a tombstone in LocalDiskReport %s has the disk cleaned wherever it turns up", c.because(g, rules.CauseOf(&g.Facts)), g.node)
	c.event(g.volume, nil, message{eventRemoved, actionRelease, note})
}

// eventOnClaim records an event on the claim and its pods.
func (c *Controller) eventOnClaim(g *gathered, m message) {
	c.event(g.claim, g.volume, m)
	c.eventOnPods(g, m)
}

func (c *Controller) eventOnPods(g *gathered, m message) {
	for _, pod := range g.Pods {
		c.event(podReference(pod), g.volume, m)
	}
}

func podReference(pod rules.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID)}
}

// event records an event. What releases and removes is normal, all else a warning.
func (c *Controller) event(about, related runtime.Object, m message) {
	kind := corev1.EventTypeWarning
	switch m.reason {
	case eventReleased, eventRemoved, eventReleasing:
		kind = corev1.EventTypeNormal
	}
	if meta, ok := related.(metav1.Object); !ok || meta == nil {
		related = nil
	}
	const most = 1000 // characters of a note
	note := m.note
	if len(note) > most {
		note = strings.ToValidUTF8(note[:most], "") + "…"
	}
	c.Events.Eventf(about, related, kind, m.reason, m.action, "%s", note)
}
