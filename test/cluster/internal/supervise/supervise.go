// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervise runs child processes that cannot outlive the process that
// requested them.
//
// A small supervisor process is the parent of all children. Its client talks
// to it over a pipe; the end of the pipe, whatever causes it (Close, exit,
// panic, SIGKILL of the client), makes the supervisor kill and reap every child
// and remove the cluster's folder. A child's own children end with it, as
// long as they stay in its process group. Only the supervisor reaps, so a signal
// never reaches a recycled process id.
package supervise

import (
	"fmt"
	"syscall"
)

// Spec describes a process to run.
type Spec struct {
	// Path of the executable; no lookup in PATH takes place.
	Path string
	// Args without the program's name.
	Args []string
	// Env is the whole environment of the child.
	Env []string
	// Dir is the child's working directory; empty: the supervisor's.
	Dir string
	// Log is the file that standard output and standard error are appended to.
	Log string
	// Namespaces are the new namespaces that the child is put into, as flags of
	// Linux's clone(2). The first process of a PID namespace takes all others
	// along when it ends, and counts as ended when they have.
	Namespaces uintptr
	// Beside is a process, 0 for none, whose PID namespace the child is put into.
	// All other namespaces remain the supervisor's.
	Beside int
}

// Exit is how a process ended.
type Exit struct {
	// Code is the exit status, -1 when a signal ended the process.
	Code int
	// Signal that ended the process, 0 if none.
	Signal syscall.Signal
	// Lost is set when the supervisor itself was killed, which ends its children
	// unobserved.
	Lost bool
}

func (e Exit) String() string {
	switch {
	case e.Lost:
		return "its supervisor died"
	case e.Signal != 0:
		return fmt.Sprintf("ended by signal %d (%s)", int(e.Signal), e.Signal)
	default:
		return fmt.Sprintf("exited with status %d", e.Code)
	}
}

// command is sent from the client to the supervisor, one JSON value each.
// Exactly one of Start, Signal, Keep and Prune is set.
type command struct {
	// ID of the process meant, chosen by the client, never used twice.
	ID     int            `json:"id,omitempty"`
	Start  *Spec          `json:"start,omitempty"`
	Signal syscall.Signal `json:"signal,omitempty"`
	// Keep is whether the folder outlives the supervisor.
	Keep *bool `json:"keep,omitempty"`
	// Prune is a path that Prune removes at the end.
	Prune string `json:"prune,omitempty"`
}

// event is sent from the supervisor to the client, one JSON value each: the answer
// to a Start (PID or Error), later the process's Exit.
type event struct {
	ID    int    `json:"id"`
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
	Exit  *Exit  `json:"exit,omitempty"`
}
