// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// Query is what is read of a kind.
type Query struct {
	Kind Kind
	// Namespace has the objects; empty for all namespaces.
	Namespace string
	// Fields is a field selector; empty for all objects.
	Fields string
	// Whole reads all fields but the managed ones: else those that Trim drops are not read.
	Whole bool
}

// dropped are the fields of the objects that are not read.
func (q Query) dropped() fields {
	if q.Whole {
		return whole[q.Kind.pointer]
	}
	return trimmed[q.Kind.pointer]
}

// Reader reads snapshots from an API server.
type Reader struct {
	// Config connects to the API server, with the rights of the user.
	Config *rest.Config
	// Namespace is read alone if the user may not list the objects of all namespaces.
	Namespace string
}

// parallel is the number of kinds that are read at a time.
const parallel = 8

// Read reads all of the queries. What the user may not list is a Gap, and a kind that the API server does
// not serve is absent. Other errors, such as an API server that does not answer, are returned.
func (r *Reader) Read(ctx context.Context, queries ...Query) (*Snapshot, error) {
	s := empty()
	s.Time = time.Now()
	server, err := ServerVersion(ctx, r.Config)
	if err != nil {
		return nil, err
	}
	s.Server = server
	clients := clients{config: separateConnections(r.Config), by: map[schema.GroupVersion]rest.Interface{}}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, q := range queries {
		client, err := clients.of(q.Kind)
		if err != nil {
			return nil, err
		}
		group.Go(func() error {
			pointers, gap, err := r.list(ctx, client, q)
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("list %s: %w", q.Kind.Resource.Resource, err)
			}
			mu.Lock()
			defer mu.Unlock()
			s.note(q.Kind, gap, err != nil)
			s.add(q.Kind, pointers...)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s.sortGaps()
	return s, nil
}

// list reads a query; if that is forbidden for all namespaces, the one of the reader.
func (r *Reader) list(ctx context.Context, client rest.Interface, q Query) ([]reflect.Value, *Gap, error) {
	all, err := listAll(ctx, client, q)
	if !apierrors.IsForbidden(err) {
		return all, nil, err
	}
	gap := &Gap{Resource: q.Kind.Resource.GroupResource().String(), Reason: err.Error()}
	narrow, ok := q.Within(r.Namespace)
	if !ok {
		return nil, gap, nil
	}
	some, err := listAll(ctx, client, narrow)
	switch {
	case apierrors.IsForbidden(err):
		return nil, gap, nil
	case err != nil:
		return nil, nil, err
	}
	gap.Except = r.Namespace
	return some, gap, nil
}

// Within returns the query for a namespace alone, for users who may not list all objects; false if it cannot be limited.
func (q Query) Within(namespace string) (Query, bool) {
	if !q.Kind.Namespaced || q.Namespace != "" || namespace == "" {
		return q, false
	}
	q.Namespace = namespace
	return q, true
}

// request returns a request for a list or a watch.
func (q Query) request(client rest.Interface, options metav1.ListOptions) *rest.Request {
	options.FieldSelector = q.Fields
	return client.Get().Resource(q.Kind.Resource.Resource).NamespaceIfScoped(q.Namespace, q.Namespace != "").
		VersionedParams(&options, metav1.ParameterCodec)
}

// listAll reads all objects of a query with one request. It is answered from the memory of the API server, which sends one
// object after the other (since Kubernetes 1.33). For each page of a list, the API server makes a list of what follows:
// with pages of 5,000, it takes ten times the memory. resourceVersion is not 0: what was read before must be in the list.
func listAll(ctx context.Context, client rest.Interface, q Query) ([]reflect.Value, error) {
	var all []reflect.Value
	_, err := pages(ctx, client, q, metav1.ListOptions{}, func(items []reflect.Value) error {
		all = items
		return nil
	})
	return all, err
}

// pages calls visit with the items of each page of a query, which are pointers, without the fields that it drops. more:
// the error, if any, is that of a page after the first.
func pages(ctx context.Context, client rest.Interface, q Query, options metav1.ListOptions, visit func(items []reflect.Value) error) (more bool, err error) {
	var body bytes.Buffer
	for {
		list := &list{kind: q.Kind, dropped: q.dropped(), body: &body}
		if err := list.request(ctx, q.request(client, options)); err != nil {
			return options.Continue != "", err
		}
		if err := visit(list.items); err != nil {
			return options.Continue != "", err
		}
		options.Continue = list.meta.Continue
		if options.Continue == "" {
			return true, nil
		}
	}
}

// clients are REST clients by version.
type clients struct {
	config *rest.Config
	by     map[schema.GroupVersion]rest.Interface
}

func (c *clients) of(k Kind) (rest.Interface, error) {
	version := k.Resource.GroupVersion()
	if client := c.by[version]; client != nil {
		return client, nil
	}
	config := rest.CopyConfig(c.config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if version.Group == stowage.SchemeGroupVersion.Group {
		config.AcceptContentTypes = runtime.ContentTypeJSON
	}
	config.ContentType = runtime.ContentTypeJSON
	config.QPS = -1 // a few lists
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", version, err)
	}
	c.by[version] = client
	return client, nil
}

// separateConnections makes the requests of a config that are sent at the same time use connections of their own, with
// HTTP/1.1. All bytes of a connection with HTTP/2 pass one goroutine of the client and of the API server, which copy
// them once more: it takes a quarter more of the API server's CPU time and twice the client's.
func separateConnections(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	return config
}

// ServerVersion returns the version of the API server; nil if the user may not read it.
func ServerVersion(ctx context.Context, config *rest.Config) (*version.Info, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	server, err := client.ServerVersionWithContext(ctx)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the version of the API server at %s: %w", config.Host, err)
	}
	return server, nil
}
