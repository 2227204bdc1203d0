// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// TestStopWhileCleaning: a provisioner that is terminated during a clean ends
// at once, and the next one completes it.
func TestStopWhileCleaning(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	begun := n.Path("begun")
	if err := unix.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	// The first time it removes a file and hangs, the second time it removes all.
	command := script(t, n, `if mkdir "`+n.Path("once")+`"; then rm "$LOCAL_PV_FILESYSTEM/a"; echo $$ > "`+begun+`"; exec tail -f /dev/null; fi
find "$LOCAL_PV_FILESYSTEM" -mindepth 1 -delete`)
	n.Set(n.Files, "fsCleanerCommand", []any{command})
	n.Start()
	volume := n.Claim(n.Files, "disk1")
	n.Write("disk1", "a", "secret")
	n.Write("disk1", "b", "secret")
	n.Release(volume)
	cleaner := readLine(t, begun, n.Env.Timeout)
	n.WaitEntry(n.Files, "disk1", stowage.EntryCleaning, "")

	n.Stop()
	if _, err := os.Stat("/proc/" + cleaner); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the provisioner has ended and its cleaner, process %s, has not: %v", cleaner, err)
	}
	now := n.Volume(n.Files, "disk1")
	if now == nil || now.UID != volume.UID || now.DeletionTimestamp == nil || len(now.Finalizers) == 0 {
		t.Fatalf("a half cleaned volume must stay, being deleted: it is %v", now)
	}
	if names := n.Names("disk1"); len(names) != 1 || names[0] != "b" {
		t.Fatalf("the clean was to be broken off in the middle, and has left %q", names)
	}

	n.Start()
	n.WaitRepublished(n.Files, "disk1", volume)
	if names := n.Names("disk1"); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeCleaned")
	n.WaitEntry(n.Files, "disk1", stowage.EntryAvailable, "")
}

// TestStopWhileIdle: an idle provisioner ends on SIGTERM, and its
// volumes stay.
func TestStopWhileIdle(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	n.Start()
	before := n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
	n.Stop()
	n.Start()
	n.Tmpfs("disk2", "1m")
	n.WaitPhase(n.Files, "disk2", corev1.VolumeAvailable)
	same(t, n, before, n.Files, "disk1")
}

// readLine waits for a line from a named pipe.
func readLine(t *testing.T, pipe string, timeout time.Duration) string {
	t.Helper()
	file, err := os.OpenFile(pipe, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := file.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	length, err := file.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(line[:length]))
}
