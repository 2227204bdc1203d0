// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// RoundTrip makes the cluster an API server without a network for the real client.
func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	defer func() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
	}()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "apis" {
		return reply(c.review(r.Body))
	}
	parts = parts[2:]
	if parts[0] == "namespaces" {
		parts = parts[2:]
	}
	this := call{verb: r.Method, resource: parts[0], name: parts[1]}
	if len(parts) == 3 {
		this.resource += "/" + parts[2]
	}
	if c.hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if c.before != nil {
		if err := c.before(this); err != nil {
			return reply(nil, err)
		}
	}
	object, err := c.serve(this, r.Body)
	if c.after != nil {
		c.after(this)
	}
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return reply(object, err)
}

func (c *cluster) serve(this call, body io.Reader) (any, error) {
	resource, _, _ := strings.Cut(this.resource, "/")
	status := resource != this.resource
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: resource}, this.name)
	switch {
	case this.verb == http.MethodGet && resource == "persistentvolumes":
		if volume := c.Volume(this.name); volume != nil {
			return volume, nil
		}
		return nil, missing
	case this.verb == http.MethodGet && resource == "persistentvolumeclaims":
		if claim := c.Claim("default", this.name); claim != nil {
			return claim, nil
		}
		return nil, missing
	case this.verb == http.MethodGet && resource == "nodes":
		if node := c.nodes[this.name]; node != nil {
			return node, nil
		}
		return nil, missing
	case this.verb == http.MethodPut && resource == "persistentvolumes":
		var volume v1.PersistentVolume
		if err := json.NewDecoder(body).Decode(&volume); err != nil {
			return nil, err
		}
		return c.putVolume(&volume, status)
	case this.verb == http.MethodPut && resource == "persistentvolumeclaims":
		var claim v1.PersistentVolumeClaim
		if err := json.NewDecoder(body).Decode(&claim); err != nil {
			return nil, err
		}
		return c.putClaim(&claim, status)
	}
	return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: resource}, this.verb)
}

// review grants a right unless before returns an error for it.
func (c *cluster) review(body io.Reader) (any, error) {
	var review authorizationv1.SelfSubjectAccessReview
	if err := json.NewDecoder(body).Decode(&review); err != nil {
		return nil, err
	}
	asked := review.Spec.ResourceAttributes
	err := c.before(call{verb: asked.Verb, resource: asked.Resource + "/" + asked.Subresource})
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	review.Status.Allowed = err == nil
	return &review, nil
}

func reply(object any, err error) (*http.Response, error) {
	code := http.StatusOK
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, err
		}
		s := status.Status()
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		object, code = &s, int(s.Code)
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)),
	}, nil
}

func (c *cluster) client() kubernetes.Interface {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://cluster.test", Transport: c, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// binder is a Binder on the cluster with a timeout of ten minutes.
func (c *cluster) binder(mode binder.Mode) *binder.Binder {
	c.t.Helper()
	return c.binderFor(mode, 10*time.Minute)
}

func (c *cluster) binderFor(mode binder.Mode, timeout time.Duration) *binder.Binder {
	c.t.Helper()
	b, err := binder.New(binder.Config{Client: c.client(), Cache: c, Timeout: timeout, Mode: mode})
	if err != nil {
		c.t.Fatal(err)
	}
	c.binders = append(c.binders, b)
	c.t.Cleanup(c.settle)
	return b
}

// settle ends the waits of the binders.
func (c *cluster) settle() {
	for _, b := range c.binders {
		b.Shutdown(context.Background())
	}
}

// plan assigns its volume to each claim ("claim=volume"), or provisions one
// ("claim+provisioner"), in their current versions.
func (c *cluster) plan(entries ...string) *plan.Plan {
	c.t.Helper()
	p := &plan.Plan{Pod: pod, PodUID: "pod-uid", Node: "n1"}
	for _, entry := range entries {
		if name, volume, ok := strings.Cut(entry, "="); ok {
			p.Bindings = append(p.Bindings, plan.Binding{Claim: c.Claim("default", name), Volume: c.Volume(volume)})
			continue
		}
		name, provisioner, _ := strings.Cut(entry, "+")
		p.Provisions = append(p.Provisions, plan.Provision{Claim: c.Claim("default", name), Provisioner: provisioner})
	}
	return p
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	good := binder.Config{Client: c.client(), Cache: c, Timeout: time.Second, Mode: binder.Direct}
	tests := map[string]func(*binder.Config){
		"no client":    func(c *binder.Config) { c.Client = nil },
		"no cache":     func(c *binder.Config) { c.Cache = nil },
		"no time":      func(c *binder.Config) { c.Timeout = 0 },
		"unknown mode": func(c *binder.Config) { c.Mode = "direct" },
	}
	for name, spoil := range tests {
		config := good
		spoil(&config)
		if _, err := binder.New(config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := binder.New(good); err != nil {
		t.Errorf("refused a good one: %v", err)
	}
}
