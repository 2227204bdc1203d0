// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/test/perf/source"
)

// newClient is made as kube-scheduler makes its own.
func newClient(authority []byte, scheduler *rest.Config) (*http.Client, error) {
	pair, err := tls.X509KeyPair(scheduler.CertData, scheduler.KeyData)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, ServerName: serverName, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
	}})
	return &http.Client{Transport: transport, Timeout: waitLimit}, nil
}

// Call sends a body to a verb over the scheduler's connection, and returns the whole answer.
func (e *Extender) Call(ctx context.Context, verb string, body []byte) ([]byte, error) {
	return send(ctx, e.client, http.MethodPost, "https://"+e.calls+"/"+verb, body)
}

// get requests a path of the health address.
func (e *Extender) get(ctx context.Context, path string) ([]byte, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return send(ctx, &client, http.MethodGet, "http://"+e.health+path, nil)
}

func send(ctx context.Context, client *http.Client, method, url string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %.200s", url, response.StatusCode, answer)
	}
	return answer, err
}

// awaitReady returns when the extender is ready, or has ended.
func (e *Extender) awaitReady(ctx context.Context) error {
	return waitFor(ctx, func(ctx context.Context) (bool, error) {
		select {
		case <-e.Process.Done():
			return false, errors.Join(errors.New("the extender has ended"), e.Process.Err())
		default:
		}
		_, err := e.get(ctx, "/readyz")
		return err == nil, nil
	})
}

// Binds counts the calls to bind since the extender began, by outcome.
func (e *Extender) Binds(ctx context.Context) (map[string]int, error) {
	families, err := source.Metrics(ctx, "http://"+e.health+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("extender: %w", err)
	}
	binds := map[string]int{}
	for _, m := range families["stowage_extender_binds_total"].GetMetric() {
		binds[source.Labels(m)["outcome"]] = int(m.GetCounter().GetValue())
	}
	return binds, nil
}
