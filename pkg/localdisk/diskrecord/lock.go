// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLocks bounds the locks of a folder: the folder itself, and files next to the records.
const maxLocks = 10

// lockFile is the name of the nth lock, which is not the folder itself.
func lockFile(n int) string { return fmt.Sprintf("lock-%d", n) }

// fileLock is one of the locks of a folder.
type fileLock struct {
	file *os.File
	// held reports that this process has it. If not, killed has it: a process that was
	// killed and has not ended, because a disk does not answer. It executes no further
	// instruction of its program, but the kernel may finish what it has begun.
	held   bool
	killed int
}

// acquire locks a folder for this process without waiting. A process has the folder if it
// holds one of the locks, and each of the others is free, its own, or held by a killed
// process. Because it checks the others after it took its own, no two processes can have the
// folder. proc is where the node's processes are found.
func (l *locked) acquire(proc string) error {
	l.locks = []*fileLock{{file: l.self}}
	for {
		confirming := l.holds()
		before := len(l.locks)
		if err := l.openLocks(); err != nil {
			return err
		}
		for _, lock := range l.locks {
			if err := lock.try(proc); err != nil {
				return err
			}
		}
		switch {
		case confirming && len(l.locks) == before:
			return nil
		case !l.holds():
			if err := l.addLock(); err != nil {
				return err
			}
		}
	}
}

func (l *locked) holds() bool {
	return slices.ContainsFunc(l.locks, func(lock *fileLock) bool { return lock.held })
}

// openLocks opens the lock files that others have made.
func (l *locked) openLocks() error {
	for n := len(l.locks); n < maxLocks; n++ {
		file, err := l.root.OpenFile(lockFile(n), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		l.locks = append(l.locks, &fileLock{file: file})
	}
	return nil
}

// addLock creates another lock file, because killed processes have all others.
func (l *locked) addLock() error {
	n := len(l.locks)
	if n == maxLocks {
		return fmt.Errorf("%w: %d processes were killed and have not ended, the last one is %d; restart the node", ErrLocked, n, l.locks[n-1].killed)
	}
	file, err := l.root.OpenFile(lockFile(n), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	l.locks = append(l.locks, &fileLock{file: file})
	return nil
}

// predecessor returns a killed process that still has a lock; 0 if there is none.
func (l *locked) predecessor(proc string) int {
	for _, lock := range l.locks {
		if err := lock.try(proc); err == nil && !lock.held {
			return lock.killed
		}
	}
	return 0
}

// try takes the lock if it is free. ErrLocked: a process has it that was not killed.
func (f *fileLock) try(proc string) error {
	if f.held {
		return nil
	}
	err := flock(f.file, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		f.held, f.killed = true, 0
		return nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("lock: %w", err)
	}
	pids, err := holders(proc, f.file)
	if err != nil {
		return fmt.Errorf("%w, and the process cannot be determined: %w", ErrLocked, err)
	}
	if len(pids) == 0 {
		return ErrLocked
	}
	for _, pid := range pids {
		if !wasKilled(proc, pid) {
			return ErrLocked
		}
		f.killed = pid
	}
	return nil
}

// release unlocks the file. Closing it is not enough: a child process that was forked and has not
// executed its program yet has a descriptor of the same open file, and the lock with it.
func (f *fileLock) release() error {
	if !f.held {
		return nil
	}
	f.held = false
	return flock(f.file, unix.LOCK_UN)
}

func flock(file *os.File, operation int) error {
	return control(file, func(fd int) error { return unix.Flock(fd, operation) })
}

// control calls with the file's descriptor, which stays open meanwhile.
func control(file *os.File, call func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	return errors.Join(conn.Control(func(fd uintptr) { failed = call(int(fd)) }), failed)
}

// holders are the processes that hold a lock on a file by flock(2), as proc shows them: none if
// they are in another PID namespace.
func holders(proc string, file *os.File) ([]int, error) {
	var st unix.Stat_t
	if err := control(file, func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(proc, "locks"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for line := range strings.Lines(string(text)) {
		// 1: FLOCK  ADVISORY  WRITE 4711 fe:00:9977904 0 EOF; those that wait have -> after the number
		words := strings.Fields(line)
		if len(words) < 6 || words[1] != "FLOCK" || !sameFile(words[5], &st) {
			continue
		}
		pid, err := strconv.Atoi(words[4])
		if err != nil || pid <= 0 {
			return nil, fmt.Errorf("%s/locks has the process %q", proc, words[4])
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// sameFile reports whether a file is the one of a line of /proc/locks. The device numbers of
// file systems without a device differ from those of stat(2).
func sameFile(name string, st *unix.Stat_t) bool {
	var major, minor uint32
	var inode uint64
	if n, err := fmt.Sscanf(name, "%x:%x:%d", &major, &minor, &inode); err != nil || n != 3 {
		return false
	}
	device := uint64(st.Dev) //nolint:unconvert // is of another type elsewhere
	at := unix.Major(device)
	return inode == st.Ino && major == at && (at == 0 || minor == unix.Minor(device))
}

const (
	// exiting is PF_EXITING of a task's flags, sigkill the bit of SIGKILL in a mask of signals.
	exiting = 0x4
	sigkill = 1 << (unix.SIGKILL - 1)
)

// wasKilled reports whether a process executes no more instructions of its program: a thread
// cannot handle SIGKILL yet, which ends all threads, or all threads are ending.
func wasKilled(proc string, pid int) bool {
	tasks := filepath.Join(proc, strconv.Itoa(pid), "task")
	entries, err := os.ReadDir(tasks)
	if err != nil || len(entries) == 0 {
		return false // it has just ended, and the lock will be free
	}
	ending := true
	for _, entry := range entries {
		task := filepath.Join(tasks, entry.Name())
		if killPending(task) {
			return true
		}
		ending = ending && isEnding(task)
	}
	return ending
}

func killPending(task string) bool {
	status, err := os.ReadFile(filepath.Join(task, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "SigPnd:"); ok {
			signals, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && signals&sigkill != 0
		}
	}
	return false
}

func isEnding(task string) bool {
	stat, err := os.ReadFile(filepath.Join(task, "stat"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	// The name of the program, in parentheses, may hold anything.
	words := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(words) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(words[6], 10, 64)
	return strings.ContainsAny(words[0], "XxZ") || err == nil && flags&exiting != 0
}
