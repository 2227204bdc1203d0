// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// The steps of a released volume of the local provisioner: docs/provisioner.md, "What happens to a released volume".
const (
	stepVerify = 1 // that the disk is unused
	stepDelete = 2 // the PersistentVolume
	stepClean  = 3
	stepRecord = 4 // that the disk is clean; then it is published again
	allSteps   = 4
)

// disk explains a disk.
func (x *explainer) disk(name string) error {
	if IsLocalDisk(name) {
		return x.localDisk(name)
	}
	d, err := x.findDisk(name)
	if err != nil {
		return err
	}
	x.report.Subject.Name = diskName(d)
	x.state(string(d.State), d.Since)
	size := ""
	if d.Bytes > 0 {
		size = ", " + format.Size(d.Bytes)
	}
	x.say("Disk %s (%s%s) of node %s is %s%s: %s.", d.Name, d.Path, size, d.Node, d.State, x.since(d.Since), stateMeans[d.State])
	if d.Volume != "" {
		x.relate(KindVolume, "", d.Volume, "published as", x.volumeState(d.Volume))
	}
	x.diskReason(d)
	x.reportAge(d.Node)
	if pv := snapshot.Find[*corev1.PersistentVolume](x.s, "", d.Volume); pv != nil && pv.Status.Phase == corev1.VolumeBound {
		x.volumeUsers(pv)
	}
	if d.Acknowledgement != "" {
		x.next("to publish the disk with its data: kubectl stowage acknowledge --node %s", d.Node)
	}
	x.relate(KindNode, "", d.Node, "has the disk", x.nodeState(d.Node))
	x.say("Its identity is %s.", cmp.Or(d.Identity, "unknown"))
	return nil
}

// stateMeans are the states of docs/troubleshooting.md.
var stateMeans = map[stowage.EntryState]string{
	stowage.EntryPending:   "it has no volume yet",
	stowage.EntryAvailable: "its volume is free",
	stowage.EntryBound:     "its volume has a claim",
	stowage.EntryReleased:  "the claim of its volume is gone",
	stowage.EntryCleaning:  "its data is being removed, or about to be",
	stowage.EntrySkipped:   "it has no volume",
	stowage.EntryMissing:   "its volume has a claim and no disk",
	stowage.EntryReplaced:  "its volume has a claim and another disk",
	stowage.EntryUnproven:  "its volume has a claim, and perhaps another disk",
	stowage.EntryFailing:   "the disk is failing, and is not cleaned",
	stowage.EntryRetained:  "the policy Retain keeps its data, and the volume is gone",
	stowage.EntryFailed:    "the phase of its volume is Failed",
}

// findDisk finds a disk by NODE/NAME, NODE/CLASS/NAME or NODE/PATH.
func (x *explainer) findDisk(name string) (localdisks.Disk, error) {
	node, rest, _ := strings.Cut(name, "/")
	var found []localdisks.Disk
	var names, nodes []string
	for _, d := range x.reports.Disks {
		if d.Node != node {
			nodes = append(nodes, d.Node)
			continue
		}
		names = append(names, d.Name)
		if rest == d.Name || rest == d.Class+"/"+d.Name || rest == d.Path {
			found = append(found, d)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var all []string
		for _, d := range found {
			all = append(all, diskName(d))
		}
		slices.Sort(all)
		return localdisks.Disk{}, fmt.Errorf("node %s has %d disks of the name %q: use %s", node, len(found), rest, strings.Join(all, " or "))
	}
	err := &NotFoundError{Kind: KindDisk, Name: name}
	switch {
	case len(x.reports.Disks) == 0:
		err.Hint = "no LocalDiskReport has a disk: kubectl get localdiskreports"
	case len(names) == 0:
		slices.Sort(nodes)
		err.Hint = fmt.Sprintf("there is no report with disks of node %q%s", node, similarly(node, slices.Compact(nodes)))
	default:
		slices.Sort(names)
		err.Hint = fmt.Sprintf("node %s has %s", node, format.List(slices.Compact(names), 6))
	}
	return localdisks.Disk{}, err
}

// similarly returns ", similar are a and b"; empty if no name is similar.
func similarly(name string, names []string) string {
	if similar := format.Similar(name, names); len(similar) > 0 {
		return ", similar: " + format.List(similar, 3)
	}
	return ""
}

// local names the local provisioner of a node.
func local(node string) string { return "stowage-provisioner on " + node }

func diskName(d localdisks.Disk) string { return d.Node + "/" + d.Class + "/" + d.Name }

// diskReason explains the reason of a disk's state, and what it waits for.
func (x *explainer) diskReason(d localdisks.Disk) {
	reason := disk.Reason(d.Reason)
	if reason != "" {
		x.say("%s: %s.", reason, strings.TrimSuffix(cmp.Or(d.Message, "the report has no message"), "."))
		x.link(guide.Link(d.Reason, guide.Reasons))
	} else if d.State != stowage.EntryAvailable && d.State != stowage.EntryBound {
		x.link(guide.States.Link())
	}
	if step, known := nextSteps[reason]; known {
		x.next("%s", step)
	} else if strings.HasPrefix(d.Reason, "Cannot") {
		x.next("the provisioner tries again at growing intervals; see kubectl -n %s logs of its pod on node %s", x.provisioners(), d.Node)
	}
	switch {
	case d.State == stowage.EntryCleaning:
		x.cleaning(d)
	case reason == disk.ProvingBlank && d.BlankProof != nil:
		p := d.BlankProof
		x.say("%s", progress("Read and zero so far", p.DoneBytes, p.TotalBytes, p.StartTime, x.now))
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: local(d.Node), Reason: d.Reason, DoneBytes: p.DoneBytes, TotalBytes: p.TotalBytes})
	case d.State == stowage.EntryReleased && reason == disk.VolumeInUse:
		x.report.WaitsFor = &v1alpha1.Wait{For: v1alpha1.WaitDiskUser, Name: d.Node, Reason: d.Reason, Step: stepVerify, Steps: allSteps}
	case reason == disk.InUse, reason == disk.VolumeInUse, reason == disk.SameBytes:
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitDiskUser, Name: d.Node, Reason: d.Reason})
	case reason == disk.OrphanCleanWaits:
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitController, Reason: d.Reason})
	case reason == disk.OrphanGracePeriod, d.State == stowage.EntryPending && reason == "", strings.HasPrefix(d.Reason, "Cannot"), reason == disk.TimedOut && d.State != stowage.EntryFailing:
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: local(d.Node), Reason: d.Reason})
	case d.State == stowage.EntrySkipped, d.State == stowage.EntryPending, d.Trouble():
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Reason: d.Reason})
	}
}

// cleaning explains what step a clean is in.
func (x *explainer) cleaning(d localdisks.Disk) {
	w := v1alpha1.Wait{For: v1alpha1.WaitCleaning, Name: d.Node, Reason: d.Reason, Step: stepClean, Steps: allSteps}
	c := d.Cleaning
	switch reason := disk.Reason(d.Reason); {
	case reason == disk.VolumeInUse:
		w.For = v1alpha1.WaitDiskUser
		x.say("Step %d of %d, the clean, waits until nothing else uses the disk.", stepClean, allSteps)
	case d.Job != nil:
		x.job(d.Job)
		if d.Job.State == stowage.CleaningJobWaiting || d.Job.State == stowage.CleaningJobRefused {
			w.For = v1alpha1.WaitController
		}
	case reason == disk.JobWaiting, reason == disk.JobRefused:
		w.For = v1alpha1.WaitController
	case c != nil && c.StartTime != nil:
		text := fmt.Sprintf("Step %d of %d, the clean by method %s, began%s", stepClean, allSteps, cmp.Or(c.Method, "(unknown)"), ago(c.StartTime, x.now))
		if c.Attempts > 1 {
			text += fmt.Sprintf(", attempt %d", c.Attempts)
		}
		x.say("%s.", text)
		if c.TotalBytes > 0 {
			x.say("%s", progress("Done", c.DoneBytes, c.TotalBytes, c.StartTime, x.now))
		}
	default:
		x.say("Step %d of %d, the clean, has not begun or waits to be tried again.", stepClean, allSteps)
	}
	if c != nil {
		w.DoneBytes, w.TotalBytes = c.DoneBytes, c.TotalBytes
		if c.LastError != "" {
			x.say("The last attempt failed: %s.", strings.TrimSuffix(c.LastError, "."))
		}
	}
	x.wait(w)
}

// job explains the cleaning Job of a disk.
func (x *explainer) job(j *stowage.CleaningJob) {
	text := fmt.Sprintf("Step %d of %d, the clean, is done by a Job, which is %s%s", stepClean, allSteps, j.State, x.since(j.Since))
	if j.Reason != "" {
		text += fmt.Sprintf(", %s: %s", j.Reason, strings.TrimSuffix(j.Message, "."))
	}
	x.say("%s.", text)
	x.link(guide.CleaningJobs.Link())
	if j.Job != "" {
		namespace := x.provisioners()
		x.relate("Job", namespace, j.Job, "cleans the disk", string(j.State))
		x.next("kubectl -n %s logs job/%s", namespace, j.Job)
	}
}

// ago returns " 3h ago", or " at 2026-01-02 03:04:05 UTC".
func ago(t *metav1.Time, now time.Time) string {
	if now.IsZero() {
		return " at " + format.Time(t.Time)
	}
	return " " + format.Age(t.Time, now) + " ago"
}

// progress returns how much is done, and when the rest will be if the rate stays.
func progress(what string, done, total int64, start *metav1.Time, now time.Time) string {
	if total <= 0 {
		return fmt.Sprintf("%s: %s.", what, format.Size(done))
	}
	text := fmt.Sprintf("%s: %s of %s (%d%%)", what, format.Size(done), format.Size(total), int(float64(done)/float64(total)*100))
	if start != nil && !now.IsZero() && done > 0 && now.After(start.Time) {
		rest := time.Duration(float64(now.Sub(start.Time)) * float64(total-done) / float64(done))
		text += fmt.Sprintf(", at this rate about %s more", format.Duration(rest))
	}
	return text + "."
}

// reportAge says that a report may be out of date.
func (x *explainer) reportAge(node string) {
	report := x.reports.Nodes[node]
	if report == nil {
		return
	}
	ready := meta.FindStatusCondition(report.Status.Conditions, stowage.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return
	}
	if ready.Status == metav1.ConditionUnknown {
		x.say("The provisioner of node %s has sent no heartbeat%s, so its report may be out of date.", node, x.since(&ready.LastTransitionTime))
	} else {
		x.say("The provisioner of node %s is not ready%s: %s.", node, x.since(&ready.LastTransitionTime), cmp.Or(strings.TrimSuffix(ready.Message, "."), ready.Reason))
	}
	x.next("see whether the provisioner runs on node %s: kubectl -n %s get pods -o wide --field-selector spec.nodeName=%s", node, x.provisioners(), node)
	x.link(guide.Parts.Link())
}

// nextSteps are what to do about a reason: docs/troubleshooting.md, "Reasons".
var nextSteps = map[disk.Reason]string{
	disk.SpecialFile:           "remove it from the folder, or exclude it with namePattern",
	disk.NotMountPoint:         "mount the disk there, or add a directoryPattern to the class",
	disk.MountMissing:          "mount the disk",
	disk.WrongVolumeMode:       "move it to the folder of a class of volumeMode Filesystem",
	disk.UnsupportedFilesystem: "mount a local file system there",
	disk.OutsideDirectory:      "mount the disk there, or link to a block device",
	disk.DiscoveryDirectory:    "mount disks below the folder of the class, not on it",
	disk.InUse:                 "end the use of the disk on the node, or remove the device from the folder",
	disk.SameBytes:             "remove one of the two entries from the folder",
	disk.ReadOnly:              "mount it read-write",
	disk.DeviceReadOnly:        "replace the disk, or if it was set by hand: blockdev --setrw DEVICE",
	disk.FilesystemError:       "unmount, check and remount the file system, or replace the disk",
	disk.WriteLost:             "replace the disk, or reset its health if it is sound: docs/health.md",
	disk.DiskErrors:            "check the disk; replace it, or reset its health if it is sound: docs/health.md",
	disk.DriveWarning:          "plan to replace the disk, or reset its health: docs/health.md",
	disk.DriveFailing:          "replace the disk",
	disk.Hung:                  "check the disk and the kernel's log; replace the disk if it does not answer again",
	disk.IOError:               "check the disk and the kernel's log; repair or replace the disk",
	disk.TimedOut:              "check the disk and the kernel's log; a process in state D ends when the disk answers or the node restarts",
	disk.Unreadable:            "see the message: the check failed, not necessarily because of the disk",
	disk.NoCapacity:            "replace the disk, or remove it from the folder",
	disk.NotEmpty:              "empty the disk, set existingData of the class, or acknowledge the data",
	disk.ProvingBlank:          "wait until the device is read, or zero it: blkdiscard --zeroout DEVICE",
	disk.ForeignVolume:         "adopt the other volume with kubectl stowage adopt, or delete it",
	disk.OtherNodesVolume:      "move the disk to the other node, or delete that node's volume",
	disk.NotConfigured:         "restore the class or the pattern in the configuration; until then the disk is not cleaned",
	disk.BadRecord:             "check the disk, then remove its record on the node",
	disk.ClassMissing:          "create the StorageClass",
	disk.SeveralClasses:        "change include or exclude of devices until the rules of one class select the disk",
	disk.InvalidClass:          "set reclaimPolicy of the StorageClass to Delete or Retain",
	disk.NoHardware:            "none: such devices are not listed",
	disk.Removable:             "none: removable media are not listed",
	disk.Networked:             "use the CSI driver of the cloud or the SAN",
	disk.Unidentified:          "give the virtual disk a serial number, or use a kernel of 5.15 or newer",
	disk.SharedIdentity:        "use the multipath device, or give the copies other serial numbers",
	disk.Partitioned:           "link a partition into the folder of a class, or remove the partition table",
	disk.Missing:               "bring the disk back, or replace it",
	disk.Replaced:              "put the former disk back, or give up the claim",
	disk.IdentityUnproven:      "if the disk is the same, write the annotation of the message",
	disk.SignatureLost:         "restore the file system, or delete the claim",
	disk.FilesystemChanged:     "if the file system is the volume's, accept it with the annotation stowage.dev/same-filesystem, or restore the former one",
	disk.MkfsMissing:           "add mkfs to the provisioner's image, or set mount of the class to Kubelet",
	disk.MkfsFailed:            "see the message of mkfs; it is retried",
	disk.Grown:                 "see docs/operate.md, Grow a disk",
	disk.VolumeInUse:           "end what still uses the volume on the node",
	disk.Recycle:               "set the volume's reclaim policy to Delete or Retain",
	disk.PhaseFailed:           "delete the volume; with policy Delete its disk is cleaned",
	disk.RetainedDirty:         "empty the disk, or acknowledge the data to publish the disk with it",
	disk.OtherCluster:          "see docs/operate.md, Move a node to another cluster",
	disk.VolumeVanished:        "acknowledge the data, or empty the disk",
	disk.OrphanGracePeriod:     "to keep the data, acknowledge it in time; otherwise wait",
	disk.OrphanCleanWaits:      "wait for the controller; if many disks wait, find out why their volumes are gone",
	disk.CleanFailed:           "see the last error; the clean is tried again",
	disk.CleanerMissing:        "add the tool of the method to the node, or choose another method for the class",
	disk.Interrupted:           "wait: without a claim, the volume is withdrawn and the clean continues",
	disk.JobWaiting:            "see that the controller runs and has cleaningJobs enabled",
	disk.JobRefused:            "see the reason of the Job; the provisioner requests another one",
}
