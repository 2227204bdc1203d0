// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervise runs child processes that cannot outlive this process.
//
// A small shell script, the supervisor process, removes what remains when this process ends,
// whatever ends it (Close, exit, panic, SIGKILL): it kills all process groups that still run,
// waits for their end, and removes the folder. A child's own children end with it, as long as
// they stay in its process group. Children also end when both processes are killed.
package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// script is the supervisor process. It reads commands until its client ends. Descriptor 3 is a
// pipe whose writing end all processes inherit: it ends with the last of them.
const script = prune + `
trap '' HUP INT TERM PIPE
echo # no signal ends it from here on
keep='' running='' failed=0
while read -r command argument; do
  case $command in
  start) running="$running $argument" ;;
  end)
    others=''
    for group in $running; do [ "$group" = "$argument" ] || others="$others $group"; done
    running=$others ;;
  keep) keep=$argument ;;
  prune) set -- "$@" "$argument" ;;
  esac
done
if [ -n "$running" ]; then
  for group in $running; do kill -s KILL -- "-$group" 2>/dev/null; done
  cat <&3 >/dev/null
fi
folder=$1
shift
for path; do
  tries=0
  until prune "$path"; do # a process leaves its control group after it has closed its files
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo "cannot remove $path" >&2; failed=1; break; }
    sleep 0.1
  done
done
[ "$keep" = true ] || rm -rf -- "$folder" || failed=1
exit $failed
`

const prune = `prune() {
  [ -d "$1" ] || rm -f -- "$1"
  find "$1" -depth -type d -exec rmdir -- {} + 2>/dev/null
  [ ! -e "$1" ]
}`

// Prune removes a file, or a folder and its subfolders, deepest first. Files in a folder are
// left to their owner: those of a control group are removed with it. A missing path is no
// error.
func Prune(path string) error {
	if err := exec.Command("/bin/sh", "-c", prune+"\nprune \"$1\"", "prune", path).Run(); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// Spec describes a process to run.
type Spec struct {
	// Path of the executable; no lookup in PATH takes place.
	Path string
	// Args without the program's name.
	Args []string
	// Env is the whole environment of the child.
	Env []string
	// Dir is the child's working directory; empty: that of this process.
	Dir string
	// Log is the file that standard output and standard error are appended to.
	Log string
	// Namespaces are the new namespaces that the child is put into, as flags of
	// Linux's clone(2). The first process of a PID namespace takes all others
	// along when it ends, and counts as ended when they have.
	Namespaces uintptr
	// Beside is a process, 0 for none, whose PID namespace the child is put into.
	// All other namespaces remain those of this process.
	Beside int
}

// Supervisor starts processes and owns a folder. Safe for concurrent use.
type Supervisor struct {
	script   *exec.Cmd
	stderr   bytes.Buffer // of script
	commands io.WriteCloser
	lifeline *os.File      // the writing end of the pipe that all processes inherit
	forks    chan func()   // run by one thread, whose end would end the processes
	forked   chan struct{} // closed when that thread has ended

	mu        sync.Mutex
	closed    bool
	running   map[*Process]struct{}
	processes sync.WaitGroup
}

// New starts the supervisor process, which removes dir when it ends.
func New(dir string) (*Supervisor, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	s := &Supervisor{
		script:   exec.Command("/bin/sh", "-c", script, "supervisor", dir),
		lifeline: write,
		forks:    make(chan func()),
		forked:   make(chan struct{}),
		running:  map[*Process]struct{}{},
	}
	s.script.ExtraFiles = []*os.File{read}
	s.script.Stderr = &s.stderr
	s.script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.startScript(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the supervisor process: %w", err), write.Close())
	}
	go func() {
		defer close(s.forked)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for fork := range s.forks {
			fork()
		}
	}()
	return s, nil
}

// startScript starts the supervisor process and returns when it ignores the signals to end.
func (s *Supervisor) startScript() (err error) {
	if s.commands, err = s.script.StdinPipe(); err != nil {
		return err
	}
	ready, err := s.script.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.script.Start(); err != nil {
		return err
	}
	if _, err = ready.Read(make([]byte, 1)); err != nil { // it has ended
		err = errors.Join(err, s.commands.Close(), s.script.Wait())
	}
	return err
}

// PID of the supervisor process.
func (s *Supervisor) PID() int { return s.script.Process.Pid }

// Start runs a process.
func (s *Supervisor) Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{s.lifeline}, childAttributes(spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the supervisor is closed")
	}
	started := make(chan error)
	s.forks <- func() { started <- beside(spec.Beside, cmd.Start) }
	if err := <-started; err != nil {
		return nil, err
	}
	s.command("start", cmd.Process.Pid)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	s.running[p] = struct{}{}
	s.processes.Go(func() {
		reap(cmd)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, p)
		s.command("end", cmd.Process.Pid)
		close(p.done)
	})
	return p, nil
}

// Keep sets whether the folder outlives the supervisor.
func (s *Supervisor) Keep(keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.command("keep", keep)
}

// Prune has the supervisor process prune a path at the end, as the function Prune does.
func (s *Supervisor) Prune(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.command("prune", path)
}

// command sends a command. A supervisor process that was killed carries out none, which is an
// error of Close.
func (s *Supervisor) command(name string, argument any) {
	_, _ = fmt.Fprintln(s.commands, name, argument)
}

// Close kills the running processes and waits until they are reaped, the folder is removed and
// the supervisor process has ended. Calling it again does nothing.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	for p := range s.running {
		_ = p.cmd.Process.Kill() // fails only when it has just ended
	}
	s.mu.Unlock()
	s.processes.Wait()
	if !first {
		return nil
	}
	close(s.forks)
	<-s.forked
	err := errors.Join(s.lifeline.Close(), s.commands.Close())
	if ended := s.script.Wait(); ended != nil {
		err = fmt.Errorf("supervisor process: %w: %s", ended, bytes.TrimSpace(s.stderr.Bytes()))
	}
	return err
}

// Process is a child of this process. Safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// PID of the process, also after it has ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Exit waits for the process's end and returns how it ended.
func (p *Process) Exit() *os.ProcessState {
	<-p.done
	return p.cmd.ProcessState
}

// Signal sends sig, without effect on a process that has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// childAttributes puts a child into its own process group, which the terminal's Ctrl-C does not
// reach, and makes the kernel kill it when this process is killed. A child beside another
// process needs no parent-death signal: it ends with the first process of its PID namespace.
// (Nor could it have one: the os/exec package takes a parent of another namespace for one
// that has ended.)
func childAttributes(spec Spec) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Cloneflags: spec.Namespaces}
	if spec.Beside == 0 {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}

// beside has start fork into the PID namespace of a process, 0 for this one's. The
// calling goroutine is locked to its thread, which alone is concerned.
func beside(pid int, start func() error) error {
	if pid == 0 {
		return start()
	}
	home, err := os.Open("/proc/self/ns/pid")
	if err != nil {
		return err
	}
	defer home.Close()
	other, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return err
	}
	defer other.Close()
	if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("enter the PID namespace of process %d: %w", pid, err)
	}
	err = start()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWPID); back != nil {
		err = errors.Join(err, fmt.Errorf("return to the own PID namespace: %w", back))
	}
	return err
}

// reap waits for a child's end and has its whole process group end with it. The
// group is killed before the child is reaped, while its id cannot be another's.
func reap(cmd *exec.Cmd) {
	pid := cmd.Process.Pid
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = unix.Kill(-pid, unix.SIGKILL) // fails if the group is empty
	_ = cmd.Wait()                    // the result is in ProcessState
}
