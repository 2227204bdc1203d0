// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/parts"
)

const (
	manifests = "manifests/extender"
	account   = "system:serviceaccount:kube-system:stowage-extender"
	// serverName is the extender's in the shipped configuration of the scheduler.
	serverName = "stowage-extender.kube-system.svc"
	// extenderLimit bounds each wait for the extender.
	extenderLimit = 5 * time.Minute
)

// extender is stowage-extender as it is shipped: with the configuration, the rights and the policy
// under manifests/extender, over TLS with certificates on both sides. Only addresses, paths and the
// clients' rate limits differ.
type extender struct {
	*cluster.Process
	mode   string // "full" or "advisory": the folder below the manifests
	folder string // of certificates and configuration
	calls  string // address
	client *http.Client
}

// startExtender starts the extender of arms that have one: it applies rights and policy, and returns
// when pods are marked and the extender's caches have synced. The extender ends with the cluster.
func (s *setup) startExtender(ctx context.Context, c Config) error {
	mode, ok := map[Arm]string{ExtenderFull: "full", ExtenderAdvisory: "advisory"}[s.arm]
	if !ok {
		return nil
	}
	s.progress("extender")
	s.extender = &extender{mode: mode, folder: filepath.Join(s.cluster.Folder(), "extender")}
	for _, file := range []string{"base/rbac.yaml", "full/rbac.yaml", "base/policy.yaml"} {
		if err := s.cluster.CreateFiles(ctx, filepath.Join(manifests, file)); err != nil {
			return err
		}
	}
	if err := s.awaitMarks(ctx); err != nil {
		return fmt.Errorf("wait for pods with claims to be marked: %w", err)
	}
	if err := s.writeCertificates(); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	if err := s.launchExtender(ctx, c); err != nil {
		return fmt.Errorf("start the extender: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, extenderLimit)
	defer cancel()
	return s.extender.WaitHealthy(ctx)
}

// awaitMarks waits until the API server applies the policy, for which it has no event.
func (s *setup) awaitMarks(ctx context.Context) error {
	probe := builders.MakePod("probe").Namespace("default").PVC("any").Obj()
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, extenderLimit, true, func(ctx context.Context) (bool, error) { //nolint:forbidigo // it has no event
		pod, err := s.client.CoreV1().Pods("default").Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, nil
		}
		_, marked := pod.Spec.Containers[0].Resources.Requests["stowage.dev/volumes"]
		return marked, nil
	})
}

// writeCertificates writes the extender's and the scheduler's, which the cluster has signed.
func (s *setup) writeCertificates() error {
	e := s.extender
	serving, key, err := s.cluster.ServingCertificate("stowage-extender", serverName, "127.0.0.1")
	if err != nil {
		return err
	}
	scheduler, err := s.cluster.RESTConfigFor(cluster.SchedulerUser)
	if err != nil {
		return err
	}
	failed := os.MkdirAll(e.folder, 0o700)
	for name, data := range map[string][]byte{
		"tls.crt": serving, "tls.key": key, "ca.crt": scheduler.CAData, "client.crt": scheduler.CertData, "client.key": scheduler.KeyData,
	} {
		failed = errors.Join(failed, os.WriteFile(filepath.Join(e.folder, name), data, 0o600))
	}
	// As kube-scheduler's own.
	scheduler.Timeout, scheduler.ServerName = extenderLimit, serverName
	e.client, err = rest.HTTPClientFor(scheduler)
	return errors.Join(failed, err)
}

func (s *setup) launchExtender(ctx context.Context, c Config) error {
	e, health := s.extender, ""
	for _, address := range []*string{&e.calls, &health} {
		var err error
		if *address, err = parts.FreeAddress(ctx); err != nil {
			return err
		}
	}
	config, err := e.shipped("config.yaml",
		"address: :8443", "address: "+e.calls,
		"/etc/stowage-extender-serving/", e.folder+"/",
		"/etc/stowage-extender-clients/ca.crt", s.cluster.CAFile(),
		"kind: ExtenderConfiguration\n", fmt.Sprintf("kind: ExtenderConfiguration\nhealthAddress: %s\nclientConnection: {qps: %d, burst: %[2]d}\n", health, clientQPS),
		"leaderElection:\n", "leaderElection:\n  leaderElect: false\n")
	if err != nil {
		return err
	}
	file := filepath.Join(e.folder, "config.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	kubeconfig, err := s.cluster.KubeconfigFor(account, "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
	if err != nil {
		return err
	}
	e.Process, err = s.cluster.StartProcess(cluster.ProcessOptions{
		Name: "stowage-extender", Binary: c.Extender, Args: []string{"--config=" + file, "--kubeconfig=" + kubeconfig, fmt.Sprintf("--v=%d", c.Profile.Verbosity)},
		HealthURL: "http://" + health, HealthPath: "/readyz",
	})
	return err
}

// schedulerConfig is the KubeSchedulerConfiguration of a scheduler with the extender.
func (e *extender) schedulerConfig() ([]byte, error) {
	return e.shipped("scheduler.yaml",
		"https://"+serverName, "https://"+e.calls,
		"/etc/kubernetes/stowage-extender/", e.folder+"/",
		"kubeconfig: /etc/kubernetes/scheduler.conf # kubeadm's path", fmt.Sprintf("qps: %d\n  burst: %[1]d", clientQPS))
}

// shipped is a configuration with pairs of old and new text, all of which must be there.
func (e *extender) shipped(file string, replace ...string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(manifests, e.mode, file))
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

// call has the extender do a verb over the scheduler's connection, and decodes its answer. It
// lasts from the first byte sent to the last one read.
func (e *extender) call(ctx context.Context, verb string, args, result any) (took time.Duration, err error) {
	body, err := json.Marshal(args)
	if err != nil {
		return 0, err
	}
	sent := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+e.calls+"/"+verb, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := e.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	took = time.Since(sent)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %.200s", verb, response.StatusCode, answer)
	}
	if err != nil {
		return took, err
	}
	return took, json.Unmarshal(answer, result)
}
