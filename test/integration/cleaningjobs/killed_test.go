// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs_test

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/integration/node"
	"stowage.dev/stowage/test/provisioners"
)

// slow makes the node clean file systems by a command that hangs in the middle until
// finish is called, once.
func slow(t *testing.T, n *node.Node) (finish func()) {
	t.Helper()
	path, until := n.Path("cleaner.sh"), n.Path("until")
	n.Command("mkfifo", until)
	text := "#!/bin/sh\nset -e\nrm -f \"$LOCAL_PV_FILESYSTEM/a\"\nread line <" + until + "\nfind \"$LOCAL_PV_FILESYSTEM\" -mindepth 1 -delete\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // It is executed.
		t.Fatal(err)
	}
	n.Set(n.Files, "fsCleanerCommand", []any{path})
	share(t, n)
	// Open for reading and writing, so that neither side blocks.
	pipe, err := os.OpenFile(until, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	return func() {
		if _, err := pipe.WriteString("continue\n"); err != nil {
			t.Error(err)
		}
	}
}

// begun releases a volume, and waits until its Job hangs while it cleans.
func begun(t *testing.T, n *node.Node) *corev1.PersistentVolume {
	t.Helper()
	n.Tmpfs("disk1", "1m")
	n.Start()
	volume := n.Claim(n.Files, "disk1")
	n.Write("disk1", "a", "secret")
	n.Write("disk1", "b", "secret")
	n.Release(volume)
	return volume
}

func isRunning(job stowage.CleaningJob) bool { return job.State == stowage.CleaningJobRunning }

// cleaned waits until the volume is published again, and checks that it is empty.
func cleaned(t *testing.T, n *node.Node, volume *corev1.PersistentVolume) {
	t.Helper()
	n.WaitRepublished(n.Files, "disk1", volume)
	if names := n.Names("disk1"); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
}

// TestKillProvisionerAndController: the Job continues without them, and after a restart they
// create no second one.
func TestKillProvisionerAndController(t *testing.T) {
	n := newNode(t)
	finish := slow(t, n)
	k := startKubelet(t, n)
	volume := begun(t, n)
	k.next()
	waitAnswer(t, n, "answered with a Job", isRunning)
	n.Kill()
	if err := running.Kill(); err != nil {
		t.Fatal(err)
	}
	var err error
	if running, err = startController(n.Env.Cluster, controller); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.WaitEntry(n.Files, "disk1", stowage.EntryCleaning, "")
	finish()
	cleaned(t, n, volume)
	if names := made(t, n); len(names) != 1 {
		t.Errorf("the Jobs are %q, want one", names)
	}
}

// TestKillJob: a container that is killed, and a Job that is deleted by hand, cost an
// attempt each.
func TestKillJob(t *testing.T) {
	n := newNode(t)
	finish := slow(t, n)
	k := startKubelet(t, n)
	volume := begun(t, n)
	first := k.next()
	answer := waitAnswer(t, n, "answered with a Job", isRunning)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeFailedDelete", "exit code 1")
	k.next()
	second := waitAnswer(t, n, "answered with another Job", func(job stowage.CleaningJob) bool { return isRunning(job) && job.Attempt != answer.Attempt })
	err := n.Env.Client.BatchV1().Jobs(provisioners.Namespace).Delete(n.Env.Context(), second.Job, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if err != nil {
		t.Fatal(err)
	}
	k.next()
	finish()
	cleaned(t, n, volume)
}

// TestDeadline: a Job that exceeds its deadline is ended, and the next one has the class's
// current deadline.
func TestDeadline(t *testing.T) {
	n := newNode(t)
	finish := slow(t, n)
	n.Set(n.Files, "cleanTimeout", "2s")
	share(t, n)
	k := startKubelet(t, n)
	volume := begun(t, n)
	k.next()
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeFailedDelete", "DeadlineExceeded", "cleanTimeout")
	if now := n.Volume(n.Files, "disk1"); now == nil || now.UID != volume.UID || len(now.Finalizers) == 0 {
		t.Errorf("a volume that is half cleaned must stay: it is %v", now)
	}
	n.Set(n.Files, "cleanTimeout", nil)
	share(t, n)
	finish()
	cleaned(t, n, volume)
}

// TestImageMissing: the report shows why a Job does not start.
func TestImageMissing(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n)
	k.hold("ImagePullBackOff")
	volume := begun(t, n)
	entry := n.WaitEntry(n.Files, "disk1", stowage.EntryCleaning, "CleaningJobWaiting")
	if !strings.Contains(entry.Message, "ImagePullBackOff") {
		t.Errorf("the entry has message %q", entry.Message)
	}
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "CleaningJobWaiting", "ImagePullBackOff")
	k.hold("")
	answer := waitAnswer(t, n, "answered with a Job", isRunning)
	err := n.Env.Client.BatchV1().Jobs(provisioners.Namespace).Delete(n.Env.Context(), answer.Job, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	if err != nil {
		t.Fatal(err)
	}
	k.next()
	cleaned(t, n, volume)
}

// TestSwitchToInProcess: while a Job runs the provisioner does not clean; it does
// after the Job's end, in any state of the Job in the API server.
func TestSwitchToInProcess(t *testing.T) {
	n := newNode(t)
	slow(t, n)
	k := startKubelet(t, n)
	volume := begun(t, n)
	job := k.next()
	waitAnswer(t, n, "answered with a Job", isRunning)
	n.Stop()
	n.WriteConfig("useJobForCleaning", "false")
	n.Set(n.Files, "fsCleanerCommand", nil)
	n.Start()
	n.WaitEntry(n.Files, "disk1", stowage.EntryCleaning, "VolumeInUse")
	if names := n.Names("disk1"); len(names) != 1 {
		t.Errorf("the provisioner has cleaned beside a Job: %q is left", names)
	}
	if err := job.Kill(); err != nil {
		t.Fatal(err)
	}
	cleaned(t, n, volume)
}
