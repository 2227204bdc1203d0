// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	kubeversion "k8s.io/component-base/version"
)

func TestCheckVersionSkew(t *testing.T) {
	for name, c := range map[string]struct {
		server  string
		warning string
		err     string
	}{
		"the same minor version":                      {server: "v1.37.4"},
		"a distribution's suffix":                     {server: "v1.37.1-eks-12ab"},
		"a build's suffix":                            {server: "v1.37.1+k3s1"},
		"the server is one minor version newer":       {server: "v1.38.0"},
		"the server is two minor versions newer":      {server: "v1.39.0", warning: "one minor version older"},
		"the server is one minor version older":       {server: "v1.36.3", err: "run the build for Kubernetes 1.36"},
		"the server is an alpha of the next version":  {server: "v1.38.0-alpha.1"},
		"the server is an older major version":        {server: "v0.40.0", err: "--allow-unsupported-version-skew"},
		"the server's version cannot be parsed":       {server: "unknown", warning: `"unknown" cannot be parsed`},
		"the server does not report a version at all": {server: "", warning: "cannot be parsed"},
	} {
		t.Run(name, func(t *testing.T) {
			warning, err := checkVersionSkew("1.37", c.server)
			if got := warning != ""; got != (c.warning != "") || !strings.Contains(warning, c.warning) {
				t.Errorf("warning %q, want one with %q", warning, c.warning)
			}
			if c.err == "" {
				if err != nil {
					t.Errorf("error: %v", err)
				}
				return
			}
			if !errors.Is(err, errVersionSkew) || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "must not be newer") {
				t.Errorf("error %v, want errVersionSkew with the rule and %q", err, c.err)
			}
		})
	}
}

func TestSkewCheck(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		status  int
		// after is the number of requests that fail before the server answers.
		after   int32
		refused bool
	}{
		"older server":                              {version: "v1.0.0", refused: true},
		"the same version":                          {version: "v" + kubeversion.DefaultKubeBinaryVersion + ".0"},
		"not allowed to read the version":           {status: http.StatusForbidden},
		"older server, which answers late":          {version: "v1.0.0", after: 3, refused: true},
		"the same version, which is known late":     {version: "v" + kubeversion.DefaultKubeBinaryVersion + ".0", after: 3},
		"not the answer of an API server, at first": {version: "v1.0.0", after: -1, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := requests.Add(1)
				switch {
				case r.URL.Path != "/version":
					http.NotFound(w, r)
				case c.status != 0:
					w.WriteHeader(c.status)
				case n <= c.after:
					w.WriteHeader(http.StatusServiceUnavailable)
				case c.after < 0 && n == 1:
					_, _ = w.Write([]byte("<html>"))
				default:
					_, _ = w.Write([]byte(`{"gitVersion": "` + c.version + `"}`))
				}
			}))
			defer server.Close()

			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			done, err := skewCheck{clientOf(t, server.URL), wait.Backoff{Duration: time.Nanosecond, Steps: 1}, cancel}.enforce(ctx)
			if err == nil {
				<-done
				err = context.Cause(ctx)
			}
			if c.refused != errors.Is(err, errVersionSkew) || !c.refused && err != nil {
				t.Errorf("error: %v; want a refusal: %v", err, c.refused)
			}
		})
	}
}

func TestVersionSkewCheckEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	// Nothing listens on the port.
	done, err := newSkewCheck(clientOf(t, "http://127.0.0.1:1"), cancel).enforce(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel(nil)
	<-done
}

// clientOf returns a client of a server without authentication.
func clientOf(t *testing.T, host string) rest.Interface {
	t.Helper()
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: host, ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{}, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
