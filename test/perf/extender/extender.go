// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extender runs stowage-extender on a test cluster as it is shipped: with the
// configuration, the rights and the policy under manifests/extender, over TLS with
// certificates on both sides. Only addresses, paths and the clients' rate limits
// differ. The working folder is the top of the repository.
package extender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
)

const (
	manifests = "manifests/extender"
	account   = "system:serviceaccount:kube-system:stowage-extender"
	// serverName is the extender's in the shipped configuration of the scheduler.
	serverName = "stowage-extender.kube-system.svc"
	// waitLimit bounds a single wait.
	waitLimit = 5 * time.Minute
)

// Config configures Start.
type Config struct {
	Cluster *cluster.Cluster
	Binary  string
	// Mode is "full" or "advisory": the folder below the manifests.
	Mode string
	// QPS limits the requests a second of extender and scheduler to the API server.
	QPS int
	// Verbosity of the log.
	Verbosity int
}

// Extender is one that is ready.
type Extender struct {
	Config
	Process *cluster.Process

	folder        string
	calls, health string // addresses
	client        *http.Client
}

// Start applies rights and policy, and returns when pods are marked and the extender's caches
// have synced. The extender ends with the cluster.
func Start(ctx context.Context, c Config) (*Extender, error) {
	e := &Extender{Config: c, folder: filepath.Join(c.Cluster.Folder(), "extender-"+c.Mode)}
	for _, file := range []string{"base/rbac.yaml", "full/rbac.yaml", "base/policy.yaml"} {
		if err := c.Cluster.CreateFiles(ctx, filepath.Join(manifests, file)); err != nil {
			return nil, err
		}
	}
	if err := e.awaitPolicy(ctx); err != nil {
		return nil, fmt.Errorf("wait for pods with claims to be marked: %w", err)
	}
	if err := e.writeCertificates(); err != nil {
		return nil, fmt.Errorf("write certificates: %w", err)
	}
	if err := e.launch(ctx); err != nil {
		return nil, fmt.Errorf("start the extender: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	if err := e.Process.WaitHealthy(ctx); err != nil {
		return nil, errors.Join(err, e.Process.Kill())
	}
	return e, nil
}

// awaitPolicy waits until the API server applies the policy, for which it has no event.
func (e *Extender) awaitPolicy(ctx context.Context) error {
	probe := builders.MakePod("probe").Namespace("default").PVC("any").Obj()
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, waitLimit, true, func(ctx context.Context) (bool, error) { //nolint:forbidigo // it has no event
		pod, err := e.Cluster.Client().CoreV1().Pods("default").Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, nil
		}
		_, marked := pod.Spec.Containers[0].Resources.Requests["stowage.dev/volumes"]
		return marked, nil
	})
}

// writeCertificates writes the extender's, which signs itself, and the scheduler's, which
// the cluster has signed.
func (e *Extender) writeCertificates() error {
	serving, key, err := cert.GenerateSelfSignedCertKey(serverName, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	scheduler, err := e.Cluster.RESTConfigFor(cluster.SchedulerUser)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(e.folder, 0o700); err != nil {
		return err
	}
	var failed error
	for name, data := range map[string][]byte{
		"tls.crt": serving, "tls.key": key, "ca.crt": serving,
		"client.crt": scheduler.CertData, "client.key": scheduler.KeyData,
	} {
		failed = errors.Join(failed, os.WriteFile(e.path(name), data, 0o600))
	}
	if failed != nil {
		return failed
	}
	// As kube-scheduler's own.
	e.client, err = rest.HTTPClientFor(&rest.Config{Timeout: waitLimit, TLSClientConfig: rest.TLSClientConfig{
		CAData: serving, ServerName: serverName, CertData: scheduler.CertData, KeyData: scheduler.KeyData,
	}})
	return err
}

func (e *Extender) path(name string) string { return filepath.Join(e.folder, name) }

func (e *Extender) launch(ctx context.Context) (err error) {
	for _, address := range []*string{&e.calls, &e.health} {
		if *address, err = parts.FreeAddress(ctx); err != nil {
			return err
		}
	}
	config, err := e.shipped("config.yaml",
		"address: :8443", "address: "+e.calls,
		"/etc/stowage-extender-serving/", e.folder+"/",
		"/etc/stowage-extender-clients/ca.crt", e.Cluster.CAFile(),
		"kind: ExtenderConfiguration\n", fmt.Sprintf("kind: ExtenderConfiguration\nhealthAddress: %s\nleaderElection: {leaderElect: false}\nclientConnection: {qps: %d, burst: %d}\n", e.health, e.QPS, e.QPS))
	if err != nil {
		return err
	}
	if err := os.WriteFile(e.path("config.yaml"), config, 0o600); err != nil {
		return err
	}
	kubeconfig, err := e.Cluster.KubeconfigFor(account, "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
	if err != nil {
		return err
	}
	args := []string{"--config=" + e.path("config.yaml"), "--kubeconfig=" + kubeconfig, fmt.Sprintf("--v=%d", e.Verbosity)}
	e.Process, err = e.Cluster.StartProcess(cluster.ProcessOptions{
		Name: "stowage-extender", Binary: e.Binary, Args: args, HealthURL: "http://" + e.health, HealthPath: "/readyz",
	})
	return err
}

// SchedulerConfig is the KubeSchedulerConfiguration of a scheduler with the extender.
func (e *Extender) SchedulerConfig() ([]byte, error) {
	return e.shipped("scheduler.yaml",
		"https://"+serverName, "https://"+e.calls,
		"/etc/kubernetes/stowage-extender/", e.folder+"/",
		"kubeconfig: /etc/kubernetes/scheduler.conf # kubeadm's path", fmt.Sprintf("qps: %d\n  burst: %[1]d", e.QPS))
}

// shipped is a configuration with pairs of old and new text, all of which must be there.
func (e *Extender) shipped(file string, replace ...string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(manifests, e.Mode, file))
	if err != nil {
		return nil, fmt.Errorf("run this from the top of the repository: %w", err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(data), replace[i]) {
			return nil, fmt.Errorf("%s has no %q", file, replace[i])
		}
	}
	return []byte(strings.NewReplacer(replace...).Replace(string(data))), nil
}

// Call sends a body to a verb over the scheduler's connection, and returns the whole answer.
func (e *Extender) Call(ctx context.Context, verb string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+e.calls+"/"+verb, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %.200s", verb, response.StatusCode, answer)
	}
	return answer, err
}

// Binds counts the calls to bind since the extender began, by outcome.
func (e *Extender) Binds(ctx context.Context) (map[string]int, error) {
	families, err := source.Metrics(ctx, e.Process)
	if err != nil {
		return nil, err
	}
	binds := map[string]int{}
	for _, m := range families["stowage_extender_binds_total"].GetMetric() {
		binds[source.Labels(m)["outcome"]] = int(m.GetCounter().GetValue())
	}
	return binds, nil
}
