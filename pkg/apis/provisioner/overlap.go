// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import "strings"

// checkOverlaps refuses classes that would find the same disks. Classes whose
// folders could not be read are left out.
func checkOverlaps(n node, classes []Class) {
	for i, class := range classes {
		at := node{path: n.path.Key(class.Name), errs: n.errs}
		for _, other := range classes[:i] {
			if how := overlap(class.HostDir, other.HostDir); how != "" {
				at.child("hostDir", nil).failf("%s %s %s, the hostDir of class %s: both would find the same disks. "+
					"Give each class a folder of its own, and link or mount its disks there", class.HostDir, how, other.HostDir, other.Name)
				continue
			}
			if how := overlap(class.MountDir, other.MountDir); how != "" {
				at.child("mountDir", nil).failf("%s %s %s, the mountDir of class %s: the agent would see the same disks for both. "+
					"Mount each hostDir at a place of its own in the agent's pod", class.MountDir, how, other.MountDir, other.Name)
			}
		}
	}
}

// overlap says how a lies to b: not at all (""), or in words. Both are clean.
// /mnt/disks-other does not overlap /mnt/disks.
func overlap(a, b string) string {
	switch {
	case a == "" || b == "":
		return ""
	case a == b:
		return "is"
	case strings.HasPrefix(a, b+"/"):
		return "lies in"
	case strings.HasPrefix(b, a+"/"):
		return "holds"
	default:
		return ""
	}
}
