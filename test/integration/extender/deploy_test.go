// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
)

// manifests is the folder of the shipped manifests.
const manifests = "../../../manifests/extender"

// waitTimeout bounds a single wait for a process.
var waitTimeout = 2 * deadline.Wait()

// prepare applies the shipped rights and the policy, and waits until pods are
// marked.
func prepare(ctx context.Context, c *cluster.Cluster) error {
	for _, file := range []string{"base/rbac.yaml", "full/rbac.yaml"} {
		if err := c.CreateFiles(ctx, filepath.Join(manifests, file)); err != nil {
			return err
		}
	}
	if err := applyPolicy(ctx, c); err != nil {
		return err
	}
	if err := grant(ctx, c); err != nil {
		return err
	}
	probe := builders.MakePod("probe").Namespace("default").SchedulerName("extender-probe").PVC("any").Obj()
	err := waitFor(ctx, func(ctx context.Context) (bool, error) {
		pod, err := c.Client().CoreV1().Pods("default").Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && marked(pod), nil
	})
	if err != nil {
		return errors.Join(errNotMarked, err)
	}
	return nil
}

// waitFor polls processes, which have no events.
func waitFor(ctx context.Context, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, waitTimeout, true, done) //nolint:forbidigo // processes have no events
}

// marked reports whether the policy has marked the pod.
func marked(pod *corev1.Pod) bool {
	amount, ok := pod.Spec.Containers[0].Resources.Requests["stowage.dev/volumes"]
	return ok && amount.Value() == 1
}

// plan is what to deploy.
type plan struct {
	mode string // folder below manifests
	name string // schedulerName, and of the processes
	// extender and scheduler are pairs of old and new text of the two
	// configurations, all of which must be there.
	extender, scheduler []string
	// replicas of the extender; 0: one. With proxied, or with more than one, a
	// proxy distributes the connections.
	replicas int
	proxied  bool
	// elected has the replicas elect a leader, as by default in mode Full, with a lease
	// that runs out sooner. The proxy then leads to those that are ready.
	elected bool
	// of makes the scheduler call another deployment's extender.
	of *deployment
	// also are further schedulerNames whose pods the extender binds.
	also []string
	// account is the service account of kube-system that the extender has; "": the
	// shipped one, with the rights of both modes.
	account string
	// noScheduler and noExtender omit one of them. The scheduler then calls
	// an address without a listener.
	noScheduler, noExtender bool
}

// deployment is an extender and its scheduler.
type deployment struct {
	plan
	cluster   *cluster.Cluster
	certs     certificates
	binary    string
	replica   []*replica
	extenders []*cluster.Process // including ended ones
	scheduler *cluster.Process
	proxy     *proxy
}

// replica is one extender.
type replica struct {
	process      *cluster.Process
	port, health int
}

// deploy starts everything and returns when it is ready.
func deploy(ctx context.Context, c *cluster.Cluster, p plan) (_ *deployment, err error) {
	d := &deployment{plan: p, cluster: c}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	if p.of != nil {
		d.certs, d.replica = p.of.certs, p.of.replica
	} else if err := d.startExtenders(ctx); err != nil {
		return nil, err
	}
	if p.noScheduler {
		return d, nil
	}
	err = d.startScheduler(ctx)
	return d, err
}

// binary builds the extender, once: even an up-to-date check takes seconds.
var binary = sync.OnceValues(func() (string, error) {
	return cluster.BuildCommand(context.Background(), cluster.BuildOptions{Progress: os.Stderr}, "stowage.dev/stowage/cmd/extender")
})

func (d *deployment) startExtenders(ctx context.Context) (err error) {
	if d.certs, err = newCertificates(); err != nil {
		return err
	}
	if d.binary, err = binary(); err != nil {
		return err
	}
	for range max(1, d.replicas) {
		r := &replica{}
		if r.port, err = freePort(); err == nil {
			r.health, err = freePort()
		}
		if err != nil {
			return err
		}
		d.replica = append(d.replica, r)
		if d.noExtender {
			continue
		}
		start := d.start
		if d.elected && len(d.replica) > 1 {
			start = d.standBy
		}
		if err := start(ctx, r); err != nil {
			return err
		}
	}
	if d.replicas > 1 || d.proxied {
		d.proxy, err = newProxy(d.replica, d.elected)
	}
	return err
}

func (d *deployment) startScheduler(ctx context.Context) error {
	port := d.replica[0].port
	if d.proxy != nil {
		port = d.proxy.port
	}
	config, err := d.read("scheduler.yaml", append([]string{
		"https://" + serverName, fmt.Sprintf("https://127.0.0.1:%d", port),
		"/etc/kubernetes/stowage-extender/", d.certs.dir + "/",
		"schedulerName: default-scheduler", "schedulerName: " + d.name,
		"clientConnection:\n  kubeconfig: /etc/kubernetes/scheduler.conf # kubeadm's path\n",
		"podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\nclientConnection:\n  qps: 1000\n  burst: 2000\n",
	}, d.plan.scheduler...))
	if err != nil {
		return err
	}
	d.scheduler, err = d.cluster.StartHealthyScheduler(ctx, cluster.SchedulerOptions{Name: d.name, ConfigYAML: config})
	return err
}

// start runs an extender at the replica's ports and returns when it is ready.
func (d *deployment) start(ctx context.Context, r *replica) error {
	if err := d.launch(r); err != nil {
		return err
	}
	return r.await(ctx)
}

// standBy is start for a replica while another one leads.
func (d *deployment) standBy(ctx context.Context, r *replica) error {
	if err := d.launch(r); err != nil {
		return err
	}
	return r.waitReadyz(ctx, func(status int, text string) bool {
		return status == http.StatusServiceUnavailable && strings.Contains(text, "standing by")
	})
}

// launch is start without waiting.
func (d *deployment) launch(r *replica) error {
	account := d.account
	if account == "" {
		account = "stowage-extender"
	}
	kubeconfig, err := d.cluster.KubeconfigFor("system:serviceaccount:kube-system:"+account,
		"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
	if err != nil {
		return err
	}
	election := "leaderElection:\n  leaderElect: false\n"
	if d.elected {
		election = "leaderElection:\n" // as shipped: a shorter lease is soon lost on a machine with much else to do
	}
	replace := slices.Clone(d.extender)
	if d.mode == "full" {
		replace = append(replace, "[default-scheduler]", "["+strings.Join(append([]string{d.name}, d.also...), ", ")+"]")
	}
	config, err := d.read("config.yaml", append([]string{
		"address: :8443", fmt.Sprintf("address: 127.0.0.1:%d", r.port),
		"/etc/stowage-extender-serving/", d.certs.dir + "/",
		"/etc/stowage-extender-clients/", d.certs.dir + "/",
		"kind: ExtenderConfiguration\n", fmt.Sprintf("kind: ExtenderConfiguration\nhealthAddress: 127.0.0.1:%d\n", r.health),
		"leaderElection:\n", election,
	}, replace...))
	if err != nil {
		return err
	}
	path := d.certs.path(fmt.Sprintf("config-%d.yaml", r.port))
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return err
	}
	r.process, err = d.cluster.StartCommand(d.name, d.binary, []string{"--config=" + path, "--kubeconfig=" + kubeconfig, "--v=2"}, nil)
	if err == nil {
		d.extenders = append(d.extenders, r.process)
	}
	return err
}

// await returns when the replica is ready, or has ended.
func (r *replica) await(ctx context.Context) error {
	return r.waitReadyz(ctx, func(status int, _ string) bool { return status == http.StatusOK })
}

// waitReadyz returns when the replica's /readyz is as wanted, or the replica has ended.
func (r *replica) waitReadyz(ctx context.Context, wanted func(status int, text string) bool) error {
	return waitFor(ctx, func(ctx context.Context) (bool, error) {
		select {
		case <-r.process.Done():
			return false, errors.Join(errors.New("the extender has ended"), r.process.Err())
		default:
		}
		return wanted(r.get(ctx, "/readyz")), nil
	})
}

// get requests a path of the health port.
func (r *replica) get(ctx context.Context, path string) (status int, body string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", r.health, path), nil)
	if err != nil {
		return 0, err.Error()
	}
	client := http.Client{Timeout: deadline.Wait() / 12, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// counts are the lines of the replica's metrics that begin so.
func (r *replica) counts(ctx context.Context, prefix string) []string {
	_, text := r.get(ctx, "/metrics")
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// read is a shipped configuration with replacements.
func (d *deployment) read(file string, replace []string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(manifests, d.mode, file))
	if err != nil {
		return nil, err
	}
	text := string(data)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			return nil, fmt.Errorf("%s has no %q", file, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return []byte(text), nil
}

// stop ends all processes. It may be called again.
func (d *deployment) stop() {
	if d.scheduler != nil {
		_ = d.scheduler.Kill() // it also ends with the cluster
	}
	if d.of != nil {
		return
	}
	for _, p := range d.extenders {
		_ = p.Kill()
	}
	if d.proxy != nil {
		d.proxy.stop()
	}
	if d.certs.dir != "" {
		_ = os.RemoveAll(d.certs.dir)
	}
}

// panicked is the panics in the extenders' logs: those that were recovered, and
// those that ended the process.
func (d *deployment) panicked() error {
	var faults []error
	for _, p := range d.extenders {
		data, err := os.ReadFile(p.LogFile())
		if err != nil {
			return err
		}
		for line := range bytes.Lines(data) {
			for _, word := range []string{`] "Panic"`, "panic: ", "fatal error: "} {
				if bytes.Contains(line, []byte(word)) {
					faults = append(faults, fmt.Errorf("%s: %s", p.Name(), line))
				}
			}
		}
	}
	return errors.Join(faults...)
}

// show prints the processes' log lines about a namespace.
func (d *deployment) show(t testing.TB, about string) {
	extenders := d.extenders
	if d.of != nil {
		extenders = d.of.extenders
	}
	for _, p := range append([]*cluster.Process{d.scheduler}, extenders...) {
		if p == nil {
			continue
		}
		data, err := os.ReadFile(p.LogFile())
		if err != nil {
			t.Error(err)
			continue
		}
		lines := 0
		for line := range bytes.Lines(data) {
			if bytes.Contains(line, []byte(about)) && lines < 100 {
				lines++
				t.Logf("%s: %s", p.Name(), line)
			}
		}
	}
}

// The ports of extenders, which are stopped and restarted on the same ones, are outside the
// kernel's range for sockets without a port (ip_local_port_range begins at 32768).
const firstPort, lastPort = 20000, 32000

// beginAt is the first port that freePort tries, and portsAsked counts those that it has
// tried. Tests of other processes begin with other ports.
var (
	beginAt    = rand.IntN(lastPort - firstPort)
	portsAsked atomic.Int64
)

// freePort is a port without a listener that no other test of this process gets.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := firstPort + (beginAt+int(portsAsked.Add(1)))%(lastPort-firstPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}
