// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/deadline"
)

// stuckAt makes TestHungStat open the records in stuckWith, and stat a path.
const stuckAt, stuckWith = "STOWAGE_TEST_LOOK_AT", "STOWAGE_TEST_LOOK_WITH_RECORDS_IN"

func TestHungStat(t *testing.T) {
	path := os.Getenv(stuckAt)
	if path == "" {
		t.Skip("is a process of TestKilledPredecessor")
	}
	s := open(t, os.Getenv(stuckWith))
	fmt.Fprintln(os.Stdout, "opened")
	_, _ = os.Lstat(path)
	t.Errorf("the look was answered, with %d records", len(s.All()))
}

// silentDisk mounts a file system whose server reads requests and does not answer. looked
// waits for a request; hangUp ends the server, and with it all requests.
func silentDisk(t *testing.T) (point string, looked, hangUp func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs FUSE: %v", err)
	}
	point = t.TempDir()
	mounting := unix.Mount("disk", point, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd))
	server := os.NewFile(uintptr(fd), "fuse") // which can be waited for once it is mounted
	hangUp = func() { _ = server.Close() }
	t.Cleanup(hangUp)
	if mounting != nil {
		t.Skipf("needs FUSE: %v", mounting)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	request := func() []byte {
		t.Helper()
		if err := server.SetReadDeadline(time.Now().Add(deadline.Wait())); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 1<<20)
		n, err := server.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return buffer[:n]
	}
	// The answer to the first request, FUSE_INIT, has its number, and the version and read-ahead
	// that it requests.
	asked := request()
	reply := make([]byte, 16+64)
	binary.NativeEndian.PutUint32(reply, uint32(len(reply)))
	copy(reply[8:16], asked[8:16])
	copy(reply[16:28], asked[40:52])
	binary.NativeEndian.PutUint32(reply[16+20:], 4096) // bytes in a write
	if _, err := server.Write(reply); err != nil {
		t.Fatal(err)
	}
	return point, func() { request() }, hangUp
}

// TestKilledPredecessor: a provisioner that was killed while a disk does not answer has the
// lock until the disk answers. The next one starts, and does not touch what the first may be
// writing.
func TestKilledPredecessor(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	half := record("wwn:0x1")
	half.State = disk.Cleaning
	put(t, s, half)
	put(t, s, record("wwn:0x2"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	point, looked, hangUp := silentDisk(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestHungStat$")
	cmd.Env = append(os.Environ(), stuckAt+"="+filepath.Join(point, "file"), stuckWith+"="+folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { hangUp(); _ = cmd.Process.Kill(); <-ended })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the process did not open the records: %v", lines.Err())
	}
	looked()
	go func() { defer close(ended); _ = cmd.Wait() }() // it was killed
	if _, err := Open(folder, "/proc"); !errors.Is(err, ErrLocked) {
		t.Fatalf("while the process is not killed: %v, want %v", err, ErrLocked)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(folder, t.TempDir()); !errors.Is(err, ErrLocked) {
		t.Fatalf("where the node's processes are not seen: %v, want %v", err, ErrLocked)
	}

	s = open(t, folder)
	pid := cmd.Process.Pid
	if s.Predecessor() != pid || s.Cleaner("wwn:0x1") != pid || s.Cleaner("wwn:0x2") != 0 {
		t.Errorf("predecessor %d, cleaner %d of a disk that is half cleaned and %d of another; want %d, %[4]d and 0",
			s.Predecessor(), s.Cleaner("wwn:0x1"), s.Cleaner("wwn:0x2"), pid)
	}
	if _, err := Open(folder, "/proc"); !errors.Is(err, ErrLocked) {
		t.Errorf("a third one: %v, want %v", err, ErrLocked)
	}
	put(t, s, record("wwn:0x3"))
	s.Recheck()
	if s.Predecessor() != pid {
		t.Error("the process has not ended, and its disk is not left alone any more")
	}

	hangUp()
	<-ended
	s.Recheck()
	if s.Predecessor() != 0 || s.Cleaner("wwn:0x1") != 0 {
		t.Errorf("once it has ended: predecessor %d, cleaner %d", s.Predecessor(), s.Cleaner("wwn:0x1"))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := open(t, folder).All(); len(got) != 3 {
		t.Errorf("the next one reads %v", got)
	}
}
