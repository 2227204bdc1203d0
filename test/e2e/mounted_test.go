// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// nodesMkfs has provisioners make and mount file systems with the mkfs of their node: the images
// contain none. docs/provisioner.md has the same.
const nodesMkfs = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: stowage-provisioner, namespace: stowage-system}
spec:
  template:
    spec:
      containers:
      - name: provisioner
        volumeMounts:
        - {name: mounts, mountPath: /var/lib/stowage/mounts, mountPropagation: Bidirectional}
        - {name: sbin, mountPath: /usr/sbin, readOnly: true}
        - {name: lib, mountPath: /lib, readOnly: true}
        - {name: lib64, mountPath: /lib64, readOnly: true}
      volumes:
      - {name: mounts, hostPath: {path: /var/lib/stowage/mounts, type: DirectoryOrCreate}}
      - {name: sbin, hostPath: {path: /usr/sbin, type: Directory}}
      - {name: lib, hostPath: {path: /usr/lib, type: Directory}}
      - {name: lib64, hostPath: {path: /usr/lib64, type: Directory}}
`

// TestMountedByProvisioner: with mount Agent the provisioner makes and mounts the file system of a
// device. Pods have it also after the provisioner and the node were restarted, and the next tenant
// has an empty one.
func TestMountedByProvisioner(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	path := slot("mounted", e.Namespace)
	n := e.AddNodes(frame.Node("a", realnode.Disk{Kind: realnode.Block, Path: path, Size: 64 << 20}))[0]
	e.Do(install.MakeFolders(e.Context, n, classes))
	pv := published(e, n.Name, path)
	point := filepath.Join(disk.MountFolder, "mounted", pv.Name)
	if want := filepath.Join(point, "data"); pv.Spec.Local.Path != want {
		t.Errorf("the volume's path is %s, want %s", pv.Spec.Local.Path, want)
	}
	claim := e.Claim("volume", "mounted")
	claim.Spec.VolumeName = pv.Name
	e.Create(claim)
	finish(e, by(ours, e.Shell("first", writeSecret, "volume")))
	for _, restarted := range []struct {
		what string
		do   func()
	}{
		{"provisioner", func() { replaceProvisioner(e, n.Name) }},
		{"node", func() { e.Do(n.Kill()); e.Do(n.Start(e.Context)) }},
	} {
		restarted.do()
		if got, _ := finish(e, by(ours, e.Shell("after-"+restarted.what, readSecret, "volume"))); got != "secret\n" {
			t.Errorf("after the %s was restarted the pod reads %q, want secret", restarted.what, got)
		}
		if got := strings.TrimSpace(on(e, n, "findmnt --noheadings --output FSTYPE "+point)); got != "ext4" {
			t.Errorf("after the %s was restarted, mounted at %s is %q, want one ext4", restarted.what, point, got)
		}
	}
	giveBack(e, "volume")
	published(e, n.Name, path, pv)
	claimGone(e, "volume")
	e.Create(e.Claim("volume", "mounted"))
	if got, _ := finish(e, by(ours, e.Shell("next", "ls -A /data/volume", "volume"))); got != "" {
		t.Errorf("the next tenant sees %q, want nothing", got)
	}
}
