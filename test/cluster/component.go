// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync"
)

// Component is a part of the cluster that tests stop and restart. Safe
// for concurrent use; calls on one component are serialized.
type Component struct {
	name  string
	start func() (*Process, error)

	mu      sync.Mutex
	process *Process // nil before the first start
}

// Name of the component, such as "kube-apiserver".
func (m *Component) Name() string { return m.name }

// Process is the component's latest run, nil if it was never started.
func (m *Component) Process() *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// Start runs the component, with the flags and the port it had before, and
// waits until it is healthy or ctx is done. It is an error if it runs already.
func (m *Component) Start(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runningLocked() {
		return fmt.Errorf("start %s: it is running already", m.name)
	}
	p, err := m.start()
	if err != nil {
		return err
	}
	m.process = p
	return p.WaitHealthy(ctx)
}

// Expect marks the end of the component's process, if there is one, as expected; see
// Process.Expect.
func (m *Component) Expect() {
	if p := m.Process(); p != nil {
		p.Expect()
	}
}

// Stop terminates the component and waits for its end; see Process.Stop.
// Stopping a component that does not run does nothing.
func (m *Component) Stop(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.runningLocked() {
		return nil
	}
	return m.process.Stop(ctx)
}

// Kill ends the component as a crash would and waits for its end. Killing
// a component that does not run does nothing.
func (m *Component) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.runningLocked() {
		return nil
	}
	return m.process.Kill()
}

// Restart kills the component and starts it again.
func (m *Component) Restart(ctx context.Context) error {
	if err := m.Kill(); err != nil {
		return err
	}
	return m.Start(ctx)
}

// Running reports whether the component has a process.
func (m *Component) Running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runningLocked()
}

func (m *Component) runningLocked() bool {
	if m.process == nil {
		return false
	}
	select {
	case <-m.process.Done():
		return false
	default:
		return true
	}
}
