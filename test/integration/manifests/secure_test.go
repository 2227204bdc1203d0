// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/server"
	"stowage.dev/stowage/test/cluster"
)

// TestScrapesAreAuthorized: with the rights that the chart gives the controller, it lets Prometheus'
// account scrape, and no other account.
func TestScrapesAreAuthorized(t *testing.T) {
	install(t)
	core := shared.Client().CoreV1()
	monitoring, err := shared.NewNamespace(t.Context(), "monitoring")
	if err != nil {
		t.Fatal(err)
	}
	token := func(space, name string) string {
		t.Helper()
		issued, err := core.ServiceAccounts(space).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return issued.Status.Token
	}
	tokens := map[string]string{"": ""}
	for _, name := range []string{"prometheus", "another"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: monitoring}}
		if _, err := core.ServiceAccounts(monitoring).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		tokens[name] = token(monitoring, name)
	}
	for _, o := range render(t, "metrics.secure=true", "monitoring.enabled=true", `monitoring.prometheusServiceAccount={"namespace":"`+monitoring+`","name":"prometheus"}`) {
		if o.GetName() == "stowage-metrics-reader" || o.GetName() == "stowage-metrics-reviews" {
			if err := cluster.Apply(t.Context(), admin, o); err != nil {
				t.Fatal(err)
			}
		}
	}

	connection := rest.AnonymousClientConfig(shared.RESTConfig())
	connection.BearerToken = token(namespace, "stowage-controller")
	secure, err := (&server.SecureFlags{Enabled: true}).Secure(connection)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		well := func() error { return nil }
		ended <- server.Serve(ctx, server.Config{Listener: listener, Healthy: well, Ready: func(string) error { return nil }, Secure: secure})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as the ServiceMonitor has it
	scrape := func(account string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tokens[account] != "" {
			request.Header.Set("Authorization", "Bearer "+tokens[account])
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode
	}
	// The API server takes up new roles a moment after they are stored.
	waitFor(t, "Prometheus may scrape", func() bool { return scrape("prometheus") == http.StatusOK })
	for account, want := range map[string]int{"": http.StatusUnauthorized, "another": http.StatusForbidden} {
		if got := scrape(account); got != want {
			t.Errorf("account %q: status %d, want %d", account, got, want)
		}
	}
}
