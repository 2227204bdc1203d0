// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Client lists and watches objects of a version of the API.
type Client struct{ client rest.Interface }

// NewClients returns a client for each of the queries.
func NewClients(config *rest.Config, queries ...Query) ([]Client, error) {
	byVersion := clients{config: config, by: map[schema.GroupVersion]rest.Interface{}}
	var all []Client
	for _, q := range queries {
		client, err := byVersion.of(q.Kind)
		if err != nil {
			return nil, err
		}
		all = append(all, Client{client})
	}
	return all, nil
}

// request returns a request that is sent once: client-go repeats one that failed for ten seconds.
func (c Client) request(q Query, options metav1.ListOptions) *rest.Request {
	return q.request(c.client, options).MaxRetries(0)
}

// List returns a page of a query's objects, a list of the API.
func (c Client) List(ctx context.Context, q Query, options metav1.ListOptions) (runtime.Object, error) {
	list, err := c.request(q, options).Do(ctx).Get()
	if err != nil {
		return nil, err
	}
	if reflect.TypeOf(list) != reflect.PointerTo(q.Kind.list) {
		return nil, fmt.Errorf("the answer to a list is a %T", list)
	}
	return list, nil
}

// Watch watches a query's objects.
func (c Client) Watch(ctx context.Context, q Query, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return c.request(q, options).Watch(ctx)
}

// Set is the objects of a kind that a watch keeps up to date. It is not safe for concurrent use.
type Set struct {
	kind  Kind
	all   reflect.Value // []T
	index map[Name]int  // of all
}

// NewSet returns an empty set.
func NewSet(k Kind) *Set {
	return &Set{kind: k, all: reflect.New(reflect.SliceOf(k.pointer)).Elem(), index: map[Name]int{}}
}

// Put adds an object, or replaces the one of its name. The error is that it is not of the set's kind.
func (s *Set) Put(object any) error {
	pointer := reflect.ValueOf(object)
	if !pointer.IsValid() || pointer.Type() != s.kind.pointer {
		return fmt.Errorf("%T is not a %s", object, s.kind.Kind)
	}
	name := nameOf(object.(Object))
	if at, ok := s.index[name]; ok {
		s.all.Index(at).Set(pointer)
		return nil
	}
	s.index[name] = s.all.Len()
	s.all.Set(reflect.Append(s.all, pointer))
	return nil
}

// Delete removes the object of a name, if there is one.
func (s *Set) Delete(object Object) {
	name := nameOf(object)
	at, ok := s.index[name]
	if !ok {
		return
	}
	last := s.all.Len() - 1
	if at != last {
		moved := s.all.Index(last)
		s.all.Index(at).Set(moved)
		s.index[nameOf(moved.Interface().(Object))] = at
	}
	delete(s.index, name)
	s.all.Index(last).SetZero()
	s.all.SetLen(last)
}

func nameOf(object Object) Name { return Name{object.GetNamespace(), object.GetName()} }

// Part returns the objects as they are now. It copies pointers, without reflection for each.
func (s *Set) Part() Part {
	objects := reflect.MakeSlice(s.all.Type(), s.all.Len(), s.all.Len())
	reflect.Copy(objects, s.all)
	return Part{Kind: s.kind, objects: objects}
}

// Part is what a snapshot has of a query.
type Part struct {
	Kind Kind
	// Gap is what could not be read; nil for nothing.
	Gap *Gap
	// Absent: the API server does not serve the kind.
	Absent bool

	objects reflect.Value // []T
}

// Assemble returns a snapshot of parts, whose objects it shares.
func Assemble(at time.Time, server *version.Info, parts ...Part) *Snapshot {
	s := empty()
	s.Time, s.Server = at, server
	for _, p := range parts {
		s.note(p.Kind, p.Gap, p.Absent)
		objects := p.objects
		if before := reflect.ValueOf(s.objects[p.Kind.pointer]); before.IsValid() {
			objects = reflect.AppendSlice(before, objects)
		}
		s.objects[p.Kind.pointer] = objects.Interface()
	}
	s.sortGaps()
	return s
}
