// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"fmt"
	"path"
)

// checkOverlaps reports classes that would find the same disks: of two, the one whose folder is
// in the other's, or the later one if both have the same. Classes whose folders could not be
// read are skipped.
func checkOverlaps(n node, classes []Class) {
	hosts, mounts := map[string]string{}, map[string]string{}
	for i := range classes {
		own(hosts, classes[i].HostDir, classes[i].Name)
		own(mounts, classes[i].MountDir, classes[i].Name)
	}
	for _, class := range classes {
		at := node{path: n.path.Key(class.Name), errs: n.errs}
		if dir, other := overlap(hosts, class.HostDir, class.Name); other != "" {
			at.child("hostDir", nil).failf("%s %s: both would find the same disks. "+
				"Give each class its own folder, and link or mount its disks there", class.HostDir, relation(class.HostDir, dir, "hostDir", other))
			continue
		}
		if dir, other := overlap(mounts, class.MountDir, class.Name); other != "" {
			at.child("mountDir", nil).failf("%s %s: the provisioner would find the same disks for both. "+
				"Mount each hostDir at its own path in the provisioner's pod", class.MountDir, relation(class.MountDir, dir, "mountDir", other))
		}
	}
}

// own records the first class that has a folder.
func own(owners map[string]string, dir, class string) {
	if _, owned := owners[dir]; !owned && dir != "" {
		owners[dir] = class
	}
}

// overlap returns the nearest folder that is dir or contains it and that another class owns,
// with that class; empty if there is none. /mnt/disks does not contain /mnt/disks-other.
func overlap(owners map[string]string, dir, class string) (holder, other string) {
	for ; dir != "" && dir != "/"; dir = path.Dir(dir) {
		if other := owners[dir]; other != "" && other != class {
			return dir, other
		}
	}
	return "", ""
}

// relation describes the position of dir relative to in, a folder of another class.
func relation(dir, in, key, class string) string {
	if dir == in {
		return fmt.Sprintf("is the %s of class %s too", key, class)
	}
	return fmt.Sprintf("is in %s, the %s of class %s", in, key, class)
}
