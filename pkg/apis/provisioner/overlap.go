// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"fmt"
	"path"
)

// checkOverlaps refuses classes that would find the same disks: of two, the one
// whose folder lies in the other's is told of, or the later when both have the
// same. Classes whose folders could not be read are left out.
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
				"Give each class its own folder, and link or mount its disks there", class.HostDir, lies(class.HostDir, dir, "hostDir", other))
			continue
		}
		if dir, other := overlap(mounts, class.MountDir, class.Name); other != "" {
			at.child("mountDir", nil).failf("%s %s: the provisioner would find the same disks for both. "+
				"Mount each hostDir at its own path in the provisioner's pod", class.MountDir, lies(class.MountDir, dir, "mountDir", other))
		}
	}
}

// own notes the first class that has a folder.
func own(owners map[string]string, dir, class string) {
	if _, owned := owners[dir]; !owned && dir != "" {
		owners[dir] = class
	}
}

// overlap finds the nearest folder that is dir or holds it, and that another
// class owns: the folder and that class, or nothing. /mnt/disks does not hold
// /mnt/disks-other.
func overlap(owners map[string]string, dir, class string) (holder, other string) {
	for ; dir != "" && dir != "/"; dir = path.Dir(dir) {
		if other := owners[dir]; other != "" && other != class {
			return dir, other
		}
	}
	return "", ""
}

// lies says how dir lies to in, a folder of another class.
func lies(dir, in, key, class string) string {
	if dir == in {
		return fmt.Sprintf("is the %s of class %s too", key, class)
	}
	return fmt.Sprintf("is in %s, the %s of class %s", in, key, class)
}
