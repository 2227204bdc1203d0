// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// errLost is the error of all calls once the supervisor has ended.
var errLost = errors.New("the supervisor process has ended")

// Supervisor is the client of one supervisor process. Safe for concurrent use.
type Supervisor struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	read chan struct{} // closed when the supervisor's reports have ended

	mu        sync.Mutex
	send      *json.Encoder
	closed    bool // no more commands
	lost      bool // no more events
	last      int
	processes map[int]*Process
}

// New starts the supervisor binary, which is built from the command
// ./supervisor below this package. It takes ownership of dir and removes it
// when it ends. Its own errors are in supervisor.log there.
func New(binary, dir string) (*Supervisor, error) {
	log, err := os.Create(filepath.Join(dir, "supervisor.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(binary, dir)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	s := &Supervisor{
		cmd:       cmd,
		in:        in,
		read:      make(chan struct{}),
		send:      json.NewEncoder(in),
		processes: map[int]*Process{},
	}
	go s.listen(out)
	return s, nil
}

// PID of the supervisor process.
func (s *Supervisor) PID() int { return s.cmd.Process.Pid }

// Start runs a process. It returns once the process runs or could not be
// started.
func (s *Supervisor) Start(spec Spec) (*Process, error) {
	p := &Process{s: s, started: make(chan event, 1), done: make(chan struct{})}
	s.mu.Lock()
	if s.closed || s.lost {
		s.mu.Unlock()
		return nil, errLost
	}
	s.last++
	p.id = s.last
	s.processes[p.id] = p
	err := s.send.Encode(command{ID: p.id, Start: &spec})
	s.mu.Unlock()
	if err != nil {
		return nil, errLost
	}
	e := <-p.started
	if e.Error != "" {
		return nil, errors.New(e.Error)
	}
	p.pid = e.PID
	return p, nil
}

// Keep sets whether the folder outlives the supervisor.
func (s *Supervisor) Keep(keep bool) error { return s.command(command{Keep: &keep}) }

// Prune has the supervisor call the function Prune for path at the end.
func (s *Supervisor) Prune(path string) error { return s.command(command{Prune: path}) }

// Close kills whatever still runs and waits until the supervisor has reaped it,
// removed the folder and ended. Calling it again does nothing.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	if first {
		_ = s.in.Close()
	}
	s.mu.Unlock()
	<-s.read
	if !first {
		return nil
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("supervisor: %w", err)
	}
	return nil
}

func (s *Supervisor) command(c command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.lost {
		return errLost
	}
	if s.send.Encode(c) != nil {
		return errLost
	}
	return nil
}

// listen hands the supervisor's reports to the processes they are about. It is
// joined by Close.
func (s *Supervisor) listen(out io.Reader) {
	defer close(s.read)
	for d := json.NewDecoder(out); ; {
		var e event
		if d.Decode(&e) != nil {
			break
		}
		s.deliver(e)
	}
	s.mu.Lock()
	s.lost = true
	left := s.processes
	s.processes = nil
	s.mu.Unlock()
	for id, p := range left {
		p.deliver(event{ID: id, Error: errLost.Error(), Exit: &Exit{Code: -1, Lost: true}})
	}
}

func (s *Supervisor) deliver(e event) {
	s.mu.Lock()
	p := s.processes[e.ID]
	if e.Exit != nil || e.Error != "" {
		delete(s.processes, e.ID)
	}
	s.mu.Unlock()
	if p != nil {
		p.deliver(e)
	}
}

// Process is a child of the supervisor. Safe for concurrent use.
type Process struct {
	s       *Supervisor
	id      int
	pid     int
	started chan event // gets the answer to Start

	exit Exit // valid once done is closed
	done chan struct{}
}

// deliver is called by one goroutine: first with the answer to Start, then with
// the exit.
func (p *Process) deliver(e event) {
	if e.PID != 0 || e.Error != "" {
		select {
		case p.started <- e:
		default: // answered before; the supervisor was lost
		}
	}
	if e.Exit != nil {
		p.exit = *e.Exit
		close(p.done)
	}
}

// PID of the process, also after it has ended.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how the process ended; valid once Done is closed.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Signal sends sig, without effect on a process that has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	return p.s.command(command{ID: p.id, Signal: sig})
}
