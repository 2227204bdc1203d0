// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/integration/node"
	"stowage.dev/stowage/test/provisioners"
)

func ofNode(n *node.Node) string {
	return wellknown.CleaningLabel + "," + wellknown.NodeLabel + "=" + localpv.NodeHash(n.Name)
}

// TestClean: released file systems and devices are cleaned by Jobs and
// published again, and the provisioner does not touch them.
func TestClean(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("files", "1m")
	n.Mount("ext4", "16M")
	device := n.Device("raw", "8M")
	startKubelet(t, n)
	n.Start()
	files, ext4, raw := n.Claim(n.Files, "files"), n.Claim(n.Files, "ext4"), n.Claim(n.Blocks, "raw")
	n.Write("files", "secret", "of its user")
	n.Write("ext4", "secret", "of its user")
	if err := os.WriteFile(device, bytes.Repeat([]byte("secret"), 1<<20), 0o600); err != nil { // past the page cache in the end
		t.Fatal(err)
	}
	n.Command("sync", device)
	for _, volume := range []*corev1.PersistentVolume{files, ext4, raw} {
		n.Release(volume)
	}
	n.WaitRepublished(n.Files, "files", files)
	n.WaitRepublished(n.Files, "ext4", ext4)
	n.WaitRepublished(n.Blocks, "raw", raw)
	for _, name := range []string{"files", "ext4"} {
		if names := n.Names(name); len(names) > 0 {
			t.Errorf("%s holds %q", name, names)
		}
	}
	if text, err := os.ReadFile(device); err != nil || len(bytes.Trim(text, "\x00")) > 0 {
		t.Errorf("the device does not read as zeros: %v", err)
	}
	n.Env.WaitEvent(metav1.NamespaceDefault, files.Name, "VolumeCleaned")
	if names := made(t, n); len(names) != 3 {
		t.Errorf("the Jobs are %q, want one for each volume", names)
	}
	n.WaitReport("without requests and answers", func(r *stowage.LocalDiskReport) bool {
		for _, entry := range r.Status.Entries {
			if entry.Cleaning != nil {
				return false
			}
		}
		return len(r.Status.Jobs) == 0
	})
	hasLittle(t, n)
}

// TestCleanSelected: Jobs clean disks that the rules of classes select, one for each volume mode, and
// the disks are published again.
func TestCleanSelected(t *testing.T) {
	n := newNode(t)
	devices := []string{n.Attach(n.Image("nvme0", "64M")), n.Attach(n.Image("nvme1", "64M"))}
	for i, class := range []string{n.Files, n.Blocks} {
		n.Select(class, map[string]any{"include": []any{map[string]any{"serial": fmt.Sprintf("S%d", i)}}})
	}
	share(t, n)
	sys := node.NVMeTree(t, devices)
	n.Args = append(n.Args, "--host-sys="+sys)
	startKubelet(t, n).setSys(sys)
	n.Start()
	formatted, raw := n.Claim(n.Files, node.NVMeSlot(0)), n.Claim(n.Blocks, node.NVMeSlot(1))
	n.Command("mkfs.ext4", "-q", "-F", devices[0])
	if err := os.WriteFile(devices[1], bytes.Repeat([]byte("secret"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Command("sync", devices[1])
	n.Release(formatted)
	n.Release(raw)
	n.WaitRepublished(n.Files, node.NVMeSlot(0), formatted)
	n.WaitRepublished(n.Blocks, node.NVMeSlot(1), raw)
	if found := n.Command("sh", "-c", "blkid -p "+devices[0]+" || test $? = 2"); found != "" {
		t.Errorf("on %s is %s", devices[0], found)
	}
	if text, err := os.ReadFile(devices[1]); err != nil || len(bytes.Trim(text, "\x00")) > 0 {
		t.Errorf("%s does not read as zeros: %v", devices[1], err)
	}
	if names := made(t, n); len(names) != 2 {
		t.Errorf("the Jobs are %q, want one for each volume", names)
	}
}

// hasLittle checks the privileges of the Jobs in the API server.
func hasLittle(t *testing.T, n *node.Node) {
	t.Helper()
	list, err := n.Env.Client.BatchV1().Jobs(provisioners.Namespace).List(n.Env.Context(), metav1.ListOptions{LabelSelector: ofNode(n)})
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range list.Items {
		spec := job.Spec.Template.Spec
		if spec.NodeName != n.Name || spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken || spec.Containers[0].Image != image {
			t.Errorf("Job %s runs on %q, %s, token %v", job.Name, spec.NodeName, spec.Containers[0].Image, spec.AutomountServiceAccountToken)
		}
		for _, volume := range spec.Volumes {
			if volume.HostPath == nil {
				t.Errorf("Job %s has volume %s, which is no folder of the node", job.Name, volume.Name)
			}
		}
	}
}
