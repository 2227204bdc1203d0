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
	"os/signal"
	"runtime"
	"syscall"
)

// Serve is the supervisor: it executes commands read from in and reports to out until in ends
// or the process gets SIGTERM, then kills and reaps running children and removes dir unless a
// command keeps it.
//
// It must be the only task of its process.
func Serve(dir string, in io.Reader, out io.Writer) error {
	// On Linux a child is tied to the life of the thread that forked it: all are
	// forked here, and a locked thread lives as long as its goroutine.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	// Caught rather than ignored: children would inherit an ignored signal. A
	// broken pipe must not end the supervisor before it has cleaned up.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)

	s := &server{dir: dir, out: json.NewEncoder(out), children: map[int]*os.Process{}, exits: make(chan event)}
	commands := decode(in)
	for {
		select {
		case c, open := <-commands:
			if !open {
				return s.shutdown()
			}
			s.do(c)
		case e := <-s.exits:
			s.reaped(e)
		case <-signals:
			return s.shutdown()
		}
	}
}

// decode reads commands until in ends. A goroutine blocked in a read cannot be
// interrupted; this one ends with the client or with the process.
func decode(in io.Reader) <-chan command {
	commands := make(chan command)
	go func() {
		defer close(commands)
		for d := json.NewDecoder(in); ; {
			var c command
			if d.Decode(&c) != nil {
				return
			}
			commands <- c
		}
	}()
	return commands
}

// server is used by the goroutine of Serve alone; others talk through exits.
type server struct {
	dir      string
	keep     bool
	prune    []string
	out      *json.Encoder
	children map[int]*os.Process
	exits    chan event
}

func (s *server) do(c command) {
	switch {
	case c.Start != nil:
		pid, err := s.start(c.ID, *c.Start)
		e := event{ID: c.ID, PID: pid}
		if err != nil {
			e.Error = err.Error()
		}
		s.report(e)
	case c.Signal != 0:
		if p := s.children[c.ID]; p != nil {
			_ = p.Signal(c.Signal) // fails only when it has just ended
		}
	case c.Keep != nil:
		s.keep = *c.Keep
	case c.Prune != "":
		s.prune = append(s.prune, c.Prune)
	}
}

func (s *server) start(id int, spec Spec) (int, error) {
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr, err = childAttributes(spec); err != nil {
		return 0, err
	}
	if err := beside(spec.Beside, cmd.Start); err != nil {
		return 0, err
	}
	s.children[id] = cmd.Process
	go func() {
		reap(cmd)
		s.exits <- event{ID: id, Exit: exitOf(cmd.ProcessState)}
	}()
	return cmd.Process.Pid, nil
}

func exitOf(state *os.ProcessState) *Exit {
	e := &Exit{Code: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal()
	}
	return e
}

func (s *server) reaped(e event) {
	delete(s.children, e.ID)
	s.report(e)
}

// report sends an event to the client; that the client has ended is noticed by the reader.
func (s *server) report(e event) { _ = s.out.Encode(e) }

// shutdown joins the goroutine of every child.
func (s *server) shutdown() error {
	for _, p := range s.children {
		_ = p.Kill() // fails only when it has just ended
	}
	for len(s.children) > 0 {
		s.reaped(<-s.exits)
	}
	var errs []error
	for _, dir := range s.prune {
		errs = append(errs, Prune(dir))
	}
	if !s.keep {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the remains of an ended cluster: %w", err)
	}
	return nil
}
