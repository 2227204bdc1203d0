// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
)

// client is a scheduler's, with a certificate of the name from the authority; ""
// for none. Each call makes a new connection.
func (d *deployment) client(t testing.TB, by *authority, name string, until time.Time) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(d.certs.authority.cert)
	config := &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}
	if name != "" {
		cert, key, err := by.issue(name, until)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: deadline.Wait()}
}

// call sends a body to a verb of the first replica.
func (d *deployment) call(ctx context.Context, client *http.Client, verb string, body io.Reader) (status int, answer string, err error) {
	return d.replica[0].call(ctx, client, verb, body)
}

func (r *replica) call(ctx context.Context, client *http.Client, verb string, body io.Reader) (status int, answer string, err error) {
	url := fmt.Sprintf("https://127.0.0.1:%d/%s", r.port, verb)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// question is a filter request for a pod whose claim is missing.
func question(t testing.TB, nodes ...string) []byte {
	t.Helper()
	return askFor(t, builders.MakePod("p").PVC("missing").Obj(), nodes...)
}

// askFor is a filter request for a pod.
func askFor(t testing.TB, pod *v1.Pod, nodes ...string) []byte {
	t.Helper()
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// slow gives a byte at a time.
type slow struct {
	ctx  context.Context
	text []byte
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.text) == 0 {
		return 0, io.EOF
	}
	pause := time.NewTimer(50 * time.Millisecond)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
	p[0], s.text = s.text[0], s.text[1:]
	return 1, nil
}

// TestCalls: the answers to unauthenticated, malformed and interrupted calls.
func TestCalls(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	d := own(e, plan{mode: "full", name: "extender-calls", noScheduler: true, extender: []string{"verb: 8s", "verb: 5s"}})
	later := time.Now().Add(time.Hour)
	stranger, err := newAuthority("stranger")
	if err != nil {
		t.Fatal(err)
	}
	good := d.client(t, d.certs.authority, clientName, later)

	for name, client := range map[string]*http.Client{
		"no certificate":                  d.client(t, nil, "", later),
		"another authority's certificate": d.client(t, stranger, clientName, later),
		"a certificate that has expired":  d.client(t, d.certs.authority, clientName, time.Now().Add(-time.Hour)),
	} {
		if status, answer, err := d.call(t.Context(), client, "filter", bytes.NewReader(question(t, "a"))); err == nil {
			t.Errorf("%s: got status %d %q", name, status, answer)
		}
	}
	for name, tc := range map[string]struct {
		client *http.Client
		body   []byte
		status int
		words  string
	}{
		"another's name":   {d.client(t, d.certs.authority, "system:admin", later), question(t, "a"), http.StatusForbidden, "clientNames"},
		"a claim unknown":  {good, question(t, "x", "y"), http.StatusOK, "missing"},
		"nodes unknown":    {good, askFor(t, builders.MakePod("p").Obj(), "x", "y"), http.StatusOK, "2 of 2 were not known"},
		"malformed":        {good, []byte(`{"Pod":`), http.StatusBadRequest, "read the request"},
		"9 MiB":            {good, bytes.Repeat([]byte(" "), 9<<20), http.StatusOK, "maxBodyBytes"},
		"10 MiB":           {good, bytes.Repeat([]byte(" "), 10<<20), http.StatusOK, "maxBodyBytes"},
		"40 MiB":           {good, bytes.Repeat([]byte("{"), 40<<20), http.StatusOK, "maxBodyBytes"},
		"deep as an abyss": {good, bytes.Repeat([]byte("["), 1<<20), http.StatusBadRequest, "read the request"},
	} {
		status, answer, err := d.call(t.Context(), tc.client, "filter", bytes.NewReader(tc.body))
		if err != nil || status != tc.status || !strings.Contains(answer, tc.words) {
			t.Errorf("%s: status %d, error %v, %.200q; want %d with %q", name, status, err, answer, tc.status, tc.words)
		}
	}
	t.Run("a slow one does not get more time", func(t *testing.T) {
		const most = 20 * time.Second // where a call has 5s, and the body takes 10 minutes
		ctx, cancel := context.WithTimeoutCause(t.Context(), deadline.Stretch(most), errors.New("the extender still reads"))
		defer cancel()
		body := append(question(t, "a"), bytes.Repeat([]byte(" "), 12_000)...)
		status, answer, err := d.call(ctx, good, "filter", &slow{ctx: ctx, text: body})
		if ctx.Err() != nil {
			t.Errorf("after %s: %v", most, context.Cause(ctx))
		}
		var result extenderv1.ExtenderFilterResult
		if err == nil && (status != http.StatusOK || json.Unmarshal([]byte(answer), &result) != nil || result.Error == "") {
			t.Errorf("the call was answered with status %d, %q", status, answer)
		}
	})
	t.Run("calls that are cancelled leave nothing behind", func(t *testing.T) { cancelCalls(e, d, good) })
	status, text := d.replica[0].get(t.Context(), "/metrics")
	if status != http.StatusOK || !strings.Contains(text, `stowage_extender_request_duration_seconds_count{outcome="malformed",verb="filter"}`) {
		t.Errorf("metrics, status %d, lack the calls by verb", status)
	}
	if strings.Contains(text, `outcome="panic"`) {
		t.Error("a call panicked")
	}
}

// cancelCalls cancels calls about pods that could be placed, at any time from before
// they are read until after they are answered, and then binds each pod.
func cancelCalls(e *fixture.Env, d *deployment, client *http.Client) {
	const pods = 100
	e.T.Helper()
	e.AddNodes(e.Node("a"))
	node := e.Name("a")
	bodies := map[string][][]byte{}
	for i := range pods {
		volume, claim := fmt.Sprintf("volume-%d", i), fmt.Sprintf("claim-%d", i)
		e.CreatePVs(e.LocalPV(volume, "a"))
		e.CreatePVC(e.PVC(claim))
		pod := e.CreatePod(e.Pod(fmt.Sprintf("pod-%d", i)).PVC(claim))
		bodies["filter"] = append(bodies["filter"], askFor(e.T, pod, node))
		bind, err := json.Marshal(extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node})
		if err != nil {
			e.T.Fatal(err)
		}
		bodies["bind"] = append(bodies["bind"], bind)
	}
	var group errgroup.Group
	for i := range pods {
		for _, verb := range []string{"filter", "bind"} {
			group.Go(func() error {
				ctx, cancel := context.WithTimeout(e.Context(), time.Duration(i)*time.Millisecond)
				defer cancel()
				_, _, err := d.call(ctx, client, verb, bytes.NewReader(bodies[verb][i]))
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					return err
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		e.T.Error(err)
	}
	for _, body := range bodies["bind"] {
		bindAtLast(e, d, client, body)
	}
	wantPacked(e, pods)
}

// bindAtLast calls until the bind is answered without an error: an earlier call may
// still be coming to its end.
func bindAtLast(e *fixture.Env, d *deployment, client *http.Client, body []byte) {
	e.T.Helper()
	for deadline := time.Now().Add(waitTimeout); ; {
		status, answer, err := d.call(e.Context(), client, "bind", bytes.NewReader(body))
		var result extenderv1.ExtenderBindingResult
		if err == nil && status == http.StatusOK && json.Unmarshal([]byte(answer), &result) == nil && result.Error == "" {
			return
		}
		if time.Now().After(deadline) {
			e.T.Fatalf("not bound yet: error %v, status %d, %s", err, status, answer)
		}
	}
}

// TestCertificateRotated: under load, one certificate gives way to another, and no
// call fails; then one authority of clients to another.
func TestCertificateRotated(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	d := own(e, plan{mode: "full", name: "extender-rotated", noScheduler: true})
	client := d.client(t, d.certs.authority, clientName, time.Now().Add(time.Hour))
	until := time.Now().Add(40 * time.Minute)
	if err := d.certs.write("tls", serverName, until); err != nil {
		t.Fatal(err)
	}
	d.waitServed(t, until, func() {
		if status, answer, err := d.call(t.Context(), client, "filter", bytes.NewReader(question(t, "a"))); err != nil || status != http.StatusOK {
			t.Fatalf("while the certificate changes: status %d %q, error %v", status, answer, err)
		}
	})
	// The authority of clients, too: those of the old one are turned away.
	other, err := newAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	if err := exchange(d.certs.path("ca.crt"), other.pem()); err != nil {
		t.Fatal(err)
	}
	trusted := d.client(t, other, clientName, time.Now().Add(time.Hour))
	for deadline := time.Now().Add(waitTimeout); ; {
		_, _, oldErr := d.call(t.Context(), client, "filter", bytes.NewReader(question(t, "a")))
		_, _, newErr := d.call(t.Context(), trusted, "filter", bytes.NewReader(question(t, "a")))
		if oldErr != nil && newErr == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("clients of the old authority: %v, of the new one: %v", oldErr, newErr)
		}
	}
}
