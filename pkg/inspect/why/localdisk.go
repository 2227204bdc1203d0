// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// IsLocalDisk reports whether a disk is named as a LocalDisk, and not as an entry of a LocalDiskReport.
func IsLocalDisk(name string) bool { return !strings.Contains(name, "/") }

// localDisk explains a LocalDisk: what it is, whether a class can have it, and its volume.
func (x *explainer) localDisk(name string) error {
	d := snapshot.Find[*stowage.LocalDisk](x.s, "", name)
	if d == nil {
		return x.noLocalDisk(name)
	}
	status, node := &d.Status, d.Spec.NodeName
	x.state(string(status.State), status.Since)
	x.relate(KindNode, "", node, "has the disk", x.nodeState(node))
	x.link(guide.Page("provisioner", "the-disks-of-a-node"))
	if status.State == "" {
		x.say("LocalDisk %s of node %s has no status yet: its provisioner has created it, and not described it.", name, node)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: local(node)})
		x.reportAge(node)
		return nil
	}
	x.say("LocalDisk %s is %s%s of node %s. It is %s%s: %s.", name, status.Device, described(status), node, status.State, x.since(status.Since), localDiskMeans[status.State])
	entry := x.entryOf(d)
	if entry == nil || entry.Reason != status.Reason {
		x.localDiskReason(d)
	}
	switch health := strings.ToLower(string(status.Health)); {
	case status.Health != stowage.LocalDiskFailing && status.Health != stowage.LocalDiskDegraded:
	case status.State == stowage.LocalDiskMissing:
		x.say("It was %s before.", health)
	default:
		x.say("It is %s.", health)
	}
	x.localDiskEntry(status, entry)
	x.reportAge(node)
	x.say("Its identity is %s.", cmp.Or(status.Identity, "unknown"))
	return nil
}

func described(status *stowage.LocalDiskStatus) string {
	var parts []string
	if status.Bytes > 0 {
		parts = append(parts, format.Size(status.Bytes))
	}
	for _, part := range []string{status.Transport, status.Model} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// localDiskMeans are the states of docs/provisioner.md.
var localDiskMeans = map[stowage.LocalDiskState]string{
	stowage.LocalDiskEligible:   "nothing uses it, and no signature was found on it; no class has it",
	stowage.LocalDiskIneligible: "no class has it, and it cannot be used as it is",
	stowage.LocalDiskAssigned:   "an entry in the folder of a class leads to it",
	stowage.LocalDiskMissing:    "it is not attached to the node",
}

// localDiskReason explains why a LocalDisk is not eligible, and what can be done with one that no class has.
func (x *explainer) localDiskReason(d *stowage.LocalDisk) {
	status, reason := &d.Status, disk.Reason(d.Status.Reason)
	if reason != "" && status.State != stowage.LocalDiskMissing { // the state says it all
		x.say("%s: %s.", reason, strings.TrimSuffix(cmp.Or(status.Message, "the LocalDisk has no message"), "."))
	}
	if reason != "" {
		x.link(guide.Link(status.Reason, guide.Reasons))
	}
	switch {
	case status.State == stowage.LocalDiskEligible:
		x.next("to use it, select it by a rule of a class, or link it into the folder of a class on node %s, by a name of /dev/disk/by-id", d.Spec.NodeName)
		x.link(guide.Page("provisioner", "disks-by-rule"))
	case status.State == stowage.LocalDiskMissing:
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Reason: status.Reason})
		x.next("bring the disk back; if it will not return: kubectl delete localdisk %s", d.Name)
	case reason == disk.InUse:
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitDiskUser, Name: d.Spec.NodeName, Reason: status.Reason})
		x.next("nothing, if the node needs the disk; else end its use on the node")
	case reason == disk.NotEmpty:
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Reason: status.Reason})
		x.next("nothing, if the data is needed; else remove it on node %s: wipefs --all %s", d.Spec.NodeName, status.Device)
	case reason != "":
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Reason: status.Reason})
		if step, known := nextSteps[reason]; known {
			x.next("%s", step)
		}
	}
}

// entryOf returns the entry of a report that leads to a LocalDisk; nil if it is not in the reports.
func (x *explainer) entryOf(d *stowage.LocalDisk) *localdisks.Disk {
	if d.Status.State != stowage.LocalDiskAssigned {
		return nil
	}
	i := slices.IndexFunc(x.reports.Disks, func(e localdisks.Disk) bool {
		return e.Node == d.Spec.NodeName && e.Class == d.Status.Class && e.Path == d.Status.Path
	})
	if i < 0 {
		return nil
	}
	return &x.reports.Disks[i]
}

// localDiskEntry explains the entry of a LocalDisk, nil if it is not in the reports, and its volume.
func (x *explainer) localDiskEntry(status *stowage.LocalDiskStatus, entry *localdisks.Disk) {
	switch {
	case status.State != stowage.LocalDiskAssigned:
		return
	case entry == nil:
		x.say("Its entry is %s of class %s, which is not in the node's report yet.", status.Path, status.Class)
		return
	}
	x.say("Its entry, %s of class %s, is %s%s: %s.", entry.Name, entry.Class, entry.State, x.since(entry.Since), stateMeans[entry.State])
	x.relate(KindDisk, "", diskName(*entry), "is its entry", string(entry.State))
	if entry.Volume != "" {
		x.relate(KindVolume, "", entry.Volume, "published as", x.volumeState(entry.Volume))
	}
	x.diskReason(*entry)
	if pv := snapshot.Find[*corev1.PersistentVolume](x.s, "", entry.Volume); pv != nil && pv.Status.Phase == corev1.VolumeBound {
		x.volumeUsers(pv)
	}
}

// noLocalDisk returns why there is no LocalDisk of a name.
func (x *explainer) noLocalDisk(name string) error {
	err := &NotFoundError{Kind: KindDisk, Name: name}
	var names []string
	for _, d := range snapshot.Of[*stowage.LocalDisk](x.s) {
		names = append(names, d.Name)
	}
	const entries = "NODE/NAME is an entry of a LocalDiskReport"
	switch {
	case !snapshot.Served[*stowage.LocalDisk](x.s):
		err.Hint = "the API server does not serve LocalDisks: apply manifests/crd; " + entries
	case !snapshot.Complete[*stowage.LocalDisk](x.s):
		err.Hint = "LocalDisks could not be read; " + entries
	default:
		err.Hint = fmt.Sprintf("no LocalDisk has this name%s: kubectl get localdisks; %s", similarly(name, names), entries)
	}
	return err
}
