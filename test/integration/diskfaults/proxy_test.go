// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskfaults_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/test/integration/node"
)

// The kinds of requests of a provisioner that tests interrupt.
const (
	createVolume  = "create a volume"
	deleteVolume  = "delete a volume"
	releaseVolume = "take the finalizer off a volume"
	updateVolume  = "update a volume"
	getVolume     = "get a volume"
	writeReport   = "write the report"
	writeEvent    = "write an event"
)

// proxy is between a provisioner and the API server.
type proxy struct {
	server *httptest.Server

	mu            sync.Mutex
	before, after func(request string) error // nil for none
}

// newProxy makes the node's provisioners use a proxy from their next start.
func newProxy(n *node.Node) *proxy {
	t := n.Env.T
	config := rest.AnonymousClientConfig(n.Env.Cluster.RESTConfig())
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	reverse := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			return p.call(&p.after, name(r.Request))
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what, err := kindOf(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if err := p.call(&p.before, what); err != nil || r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // nothing was sent
		}
		reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), nameKey{}, what)))
	}))
	reverse.ErrorLog = log.New(io.Discard, "", 0)
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0) // provisioners that are killed during a handshake
	p.server.StartTLS()
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	p.offer(n)
	return p
}

// offer writes a kubeconfig of the proxy for the provisioners.
func (p *proxy) offer(n *node.Node) {
	t := n.Env.T
	config, err := clientcmd.LoadFromFile(n.Path("kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	// Clients send tokens to servers with TLS only.
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	for key := range config.Clusters {
		config.Clusters[key] = &clientcmdapi.Cluster{Server: p.server.URL, CertificateAuthorityData: certificate}
	}
	path := n.Path("kubeconfig-of-proxy")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	n.Args = append(n.Args, "--kubeconfig="+path)
}

// on has functions called before requests are sent and after they were carried out,
// while their sender waits; nil for none. After an error the sender gets no answer.
func (p *proxy) on(before, after func(request string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.after = before, after
}

func (p *proxy) call(hook *func(string) error, what string) error {
	p.mu.Lock()
	do := *hook
	p.mu.Unlock()
	if do == nil || what == "" {
		return nil
	}
	return do(what)
}

type nameKey struct{}

func name(r *http.Request) string {
	what, _ := r.Context().Value(nameKey{}).(string)
	return what
}

// kindOf returns the kind of a request; empty for kinds that tests do not interrupt. It reads and
// restores the body.
func kindOf(r *http.Request) (string, error) {
	volumes := strings.Contains(r.URL.Path, "/persistentvolumes")
	switch {
	case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/persistentvolumes/"):
		return getVolume, nil
	case r.Method == http.MethodGet:
		return "", nil
	case strings.Contains(r.URL.Path, "/localdiskreports"):
		return writeReport, nil
	case strings.Contains(r.URL.Path, "/events"):
		return writeEvent, nil
	case volumes && r.Method == http.MethodPost:
		return createVolume, nil
	case volumes && r.Method == http.MethodDelete:
		return deleteVolume, nil
	case !volumes:
		return "", nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(wellknown.LocalVolumeFinalizer)) {
		return updateVolume, nil
	}
	return releaseVolume, nil
}
