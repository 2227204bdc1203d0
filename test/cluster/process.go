// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"stowage.dev/stowage/test/cluster/internal/supervise"
	"stowage.dev/stowage/test/deadline"
)

const (
	// The pause between health checks grows: components start within tens of
	// milliseconds to seconds.
	healthBackoffMin = 10 * time.Millisecond
	healthBackoffMax = 200 * time.Millisecond
)

var (
	// stopGrace is how long a process may take to end after SIGTERM.
	stopGrace = deadline.Wait() / 4
	// healthTimeout is how long a component may take to answer a health check.
	healthTimeout = deadline.Wait() / 12
)

// Process is one run of a component. Safe for concurrent use.
type Process struct {
	*supervise.Process
	name       string
	logFile    string
	base       endpoint
	healthPath string
	expected   atomic.Bool // the end of the process
}

// endpoint is the server of a component; without a client it has none.
type endpoint struct {
	client *http.Client
	url    string // without a path
}

// Name of the component, such as "kube-apiserver".
func (p *Process) Name() string { return p.name }

// LogFile is the path of the process's output. Restarts append to it.
func (p *Process) LogFile() string { return p.logFile }

// LogTail is the end of the process's output, as the last part of an error message.
func (p *Process) LogTail() string { return tailMessage(p.logFile) }

// Err waits for the process's end and returns how it ended, with the last lines of
// its log; nil after Stop and Kill.
func (p *Process) Err() error {
	exit := p.Exit()
	if p.expected.Load() {
		return nil
	}
	return fmt.Errorf("%s ended: %s%s", p.name, exit, p.LogTail())
}

// Signal sends a signal, such as SIGSTOP and SIGCONT to pause the process. A signal that may
// end the process makes its end expected. After the end of the process it does nothing.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	if sig != syscall.SIGSTOP && sig != syscall.SIGCONT {
		p.expected.Store(true)
	}
	if err := p.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %s to %s: %w", sig, p.name, err)
	}
	return nil
}

// Expect marks the process's end as expected from now on without Signal, Stop or Kill: it ends
// with something else.
func (p *Process) Expect() { p.expected.Store(true) }

// Kill ends the process at once, as a crash would, and waits for its end.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.Done()
	return nil
}

// Stop terminates the process and waits for its end. A process that does not
// end within stopGrace, or until ctx is done, is killed, which is an error.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stopGrace, fmt.Errorf("not within %s", stopGrace))
	defer cancel()
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
	}
	if err := p.Kill(); err != nil {
		return err
	}
	return fmt.Errorf("%s did not end on SIGTERM and was killed: %w%s", p.name, context.Cause(ctx), p.LogTail())
}

// WaitHealthy waits until the component is ready: /readyz, or /healthz where that is the only
// endpoint, answers 200. It fails when the process ends or ctx does, with the last lines of the
// log. For kwok, which has no endpoint, it only reports a process that ended.
func (p *Process) WaitHealthy(ctx context.Context) error {
	var last error
	for backoff := healthBackoffMin; ; backoff = min(2*backoff, healthBackoffMax) {
		if !p.Running() {
			return p.ended()
		}
		if last = p.check(ctx); last == nil {
			return nil
		}
		timer := time.NewTimer(backoff)
		select {
		case <-p.Done():
			timer.Stop()
			return p.ended()
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait until %s is healthy: %w; last response: %w%s", p.name, ctx.Err(), last, p.LogTail())
		case <-timer.C:
		}
	}
}

// ended is the error of calls that need the process to run.
func (p *Process) ended() error {
	if err := p.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%s was stopped", p.name)
}

// Get requests a path such as "/metrics" from the process, as an administrator, and
// returns the body of the response. Any status but 200 is an error.
func (p *Process) Get(ctx context.Context, path string) ([]byte, error) {
	if p.base.client == nil {
		return nil, fmt.Errorf("get %s from %s: it has no server", path, p.name)
	}
	body, err := p.base.get(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("get %s from %s: %w", path, p.name, err)
	}
	return body, nil
}

// WhileRunning returns a context that ends when the process does, with the
// reason as its cause. done must be called.
func (p *Process) WhileRunning(ctx context.Context) (running context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-p.Done():
			cancel(p.ended())
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
	}
}

// check fails while the component is not ready.
func (p *Process) check(ctx context.Context) error {
	if p.base.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	_, err := p.Get(ctx, p.healthPath)
	return err
}

func (e endpoint) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

// Component is a part of the cluster that tests stop and restart. Safe
// for concurrent use; calls on one component are serialized.
type Component struct {
	name  string
	start func() (*Process, error)

	mu      sync.Mutex
	process *Process // nil before the first start
}

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
	return m.process != nil && m.process.Running()
}
