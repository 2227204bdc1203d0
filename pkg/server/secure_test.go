// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	certutil "k8s.io/client-go/util/cert"
)

// pemFiles are a self-signed certificate and its key.
type pemFiles struct{ cert, key string }

func certificate(t *testing.T) pemFiles {
	t.Helper()
	folder := t.TempDir()
	files := pemFiles{filepath.Join(folder, "crt"), filepath.Join(folder, "key")}
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("127.0.0.1", nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{files.cert: cert, files.key: key} {
		if err := certutil.WriteCert(file, data); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// securely returns what asks an API server that knows the tokens "may" and "may-not", and fails for "down".
func securely(asked *int, files pemFiles) *Secure {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		*asked++
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		token := review.Spec.Token
		review.Status.Authenticated = strings.HasPrefix(token, "may")
		review.Status.User = authenticationv1.UserInfo{Username: token, Groups: []string{"scrapers"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}}}
		if token == "down" {
			return true, nil, errors.New("no connection")
		}
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		spec := review.Spec
		review.Status.Allowed = spec.User == "may" && spec.Groups[0] == "scrapers" && spec.Extra["pod"][0] == "p" &&
			spec.NonResourceAttributes.Path == "/metrics" && spec.NonResourceAttributes.Verb == "get"
		return true, review, nil
	})
	return &Secure{
		tokens: client.AuthenticationV1().TokenReviews(), accesses: client.AuthorizationV1().SubjectAccessReviews(),
		certFile: files.cert, keyFile: files.key,
	}
}

// TestSecure: any client gets probes over TLS, and clients that the API server allows get metrics.
func TestSecure(t *testing.T) {
	for name, files := range map[string]pemFiles{"a certificate of its own": {}, "a certificate from files": certificate(t)} {
		t.Run(name, func(t *testing.T) {
			var asked int
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			c := healthy(listener)
			c.Secure = securely(&asked, files)
			during(t, func(ctx context.Context) error { return Serve(ctx, c) })
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as Prometheus asks the scheduler
			for name, test := range map[string]struct {
				scheme, path, authorization string
				status                      int
			}{
				"a probe without a token":          {"https", "/healthz", "", http.StatusOK},
				"readiness without a token":        {"https", "/readyz", "", http.StatusOK},
				"metrics without a token":          {"https", "/metrics", "", http.StatusUnauthorized},
				"metrics with a password":          {"https", "/metrics", "Basic bWF5Og==", http.StatusUnauthorized},
				"metrics with an unknown token":    {"https", "/metrics", "Bearer unknown", http.StatusUnauthorized},
				"metrics without the right":        {"https", "/metrics", "Bearer may-not", http.StatusForbidden},
				"metrics with the right":           {"https", "/metrics", "Bearer may", http.StatusOK},
				"metrics while reviews fail":       {"https", "/metrics", "Bearer down", http.StatusServiceUnavailable},
				"metrics in plain HTTP":            {"http", "/metrics", "Bearer may", http.StatusBadRequest},
				"a probe in plain HTTP":            {"http", "/healthz", "", http.StatusBadRequest},
				"metrics by another name of path":  {"https", "//metrics", "", http.StatusUnauthorized},
				"what the address does not answer": {"https", "/debug/pprof", "", http.StatusNotFound},
			} {
				t.Run(name, func(t *testing.T) {
					request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.scheme+"://"+listener.Addr().String()+test.path, nil)
					if err != nil {
						t.Fatal(err)
					}
					if test.authorization != "" {
						request.Header.Set("Authorization", test.authorization)
					}
					response, err := client.Do(request)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = response.Body.Close() }()
					if response.StatusCode != test.status {
						t.Errorf("status %d, want %d", response.StatusCode, test.status)
					}
				})
			}
		})
	}
}

// TestReviewsAreRemembered: a client that may scrape is reviewed once a minute, others each
// time.
func TestReviewsAreRemembered(t *testing.T) {
	for token, want := range map[string]int{"may": 1, "may-not": 3, "unknown": 3, "down": 3} {
		var asked int
		c := healthy(nil)
		c.Secure = securely(&asked, pemFiles{})
		handler := handler(c)
		for range 3 {
			request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			request.Header.Set("Authorization", "Bearer "+token)
			handler.ServeHTTP(httptest.NewRecorder(), request)
		}
		if asked != want {
			t.Errorf("token %q was reviewed %d times, want %d", token, asked, want)
		}
	}
}

// TestSecureFlags: the error for flags that exclude each other names the flag.
func TestSecureFlags(t *testing.T) {
	for name, test := range map[string]struct {
		flags  SecureFlags
		secure bool
		err    string
	}{
		"nothing":                   {},
		"secure":                    {flags: SecureFlags{Enabled: true}, secure: true},
		"secure, with files":        {flags: SecureFlags{Enabled: true, CertFile: "c", KeyFile: "k"}, secure: true},
		"a certificate alone":       {flags: SecureFlags{Enabled: true, CertFile: "c"}, err: "--tls-private-key-file"},
		"a key alone":               {flags: SecureFlags{Enabled: true, KeyFile: "k"}, err: "--tls-cert-file"},
		"files that nothing serves": {flags: SecureFlags{CertFile: "c", KeyFile: "k"}, err: "--secure-metrics"},
	} {
		t.Run(name, func(t *testing.T) {
			secure, err := test.flags.Secure(&rest.Config{Host: "https://127.0.0.1"})
			if (secure != nil) != test.secure || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, error %v", secure, err)
			}
		})
	}
}
