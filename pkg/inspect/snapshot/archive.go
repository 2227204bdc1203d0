// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// archivePage is how many objects a file of an archive has at most. Some of the largest objects of all kinds are
// in memory at a time.
const archivePage = 500

// Archiver writes the objects of a cluster into an archive that Open reads, one page after the other.
type Archiver struct {
	Reader
	// To gets the files, below Folder.
	To     *tar.Writer
	Folder string
	// Change may change an object before it is written. If it returns false, the object is not written.
	Change func(Object) bool
	// Progress is called before each kind is read.
	Progress func(resource string)

	index index
	files map[string]int // by resource
}

// Write writes the objects of the queries, and the index. What cannot be read is a Gap of the snapshot. Errors are
// those of writing, of the context, and of an API server that does not answer at all.
func (a *Archiver) Write(ctx context.Context, queries ...Query) error {
	a.index, a.files = index{Time: time.Now()}, map[string]int{}
	server, err := ServerVersion(ctx, a.Config)
	if err != nil {
		return err
	}
	a.index.Server = server
	clients := clients{config: a.Config, by: map[schema.GroupVersion]rest.Interface{}}
	read := map[string]bool{}
	for _, q := range queries {
		resource := q.Kind.Resource.GroupResource().String()
		client, err := clients.of(q.Kind)
		if err != nil {
			return err
		}
		if !read[resource] {
			a.Progress(resource)
		}
		read[resource] = true
		q.Whole = true
		if err := a.query(ctx, client, q); err != nil {
			return err
		}
	}
	a.index.Resources = slices.Sorted(maps.Keys(read))
	text, err := json.MarshalIndent(a.index, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the index of the archive: %w", err)
	}
	return WriteFile(a.To, path.Join(a.Folder, indexName), text)
}

// Gaps are what could not be read.
func (a *Archiver) Gaps() []Gap { return a.index.Gaps }

// query writes the objects of a query.
func (a *Archiver) query(ctx context.Context, client rest.Interface, q Query) error {
	err := a.pages(ctx, client, q)
	resource := q.Kind.Resource.GroupResource().String()
	var write *writeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &write), ctx.Err() != nil:
		return err
	case apierrors.IsNotFound(err):
		a.index.Absent = append(a.index.Absent, resource)
		return nil
	}
	gap := Gap{Resource: resource, Reason: err.Error()}
	if apierrors.IsForbidden(err) && q.Kind.Namespaced && q.Namespace == "" && a.Namespace != "" {
		q.Namespace = a.Namespace
		if err := a.pages(ctx, client, q); err == nil {
			gap.Except = a.Namespace
		} else if errors.As(err, &write) || ctx.Err() != nil {
			return err
		}
	}
	a.index.Gaps = append(a.index.Gaps, gap)
	return nil
}

// pages writes each page into a file. If the first page is too old for the next one, it continues with newer
// objects: a consistent list would be in memory as a whole.
func (a *Archiver) pages(ctx context.Context, client rest.Interface, q Query) error {
	options := metav1.ListOptions{Limit: archivePage}
	for {
		more, err := pages(ctx, client, q, options, func(items []reflect.Value) error { return a.page(q.Kind, items) })
		var status apierrors.APIStatus
		if !more || !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().Continue == "" {
			return err
		}
		options.Continue = status.Status().Continue
	}
}

// page writes a page of objects as a list.
func (a *Archiver) page(k Kind, items []reflect.Value) error {
	list := reflect.New(k.list)
	kept := list.Elem().FieldByName("Items")
	for _, item := range items {
		if a.Change(item.Interface().(Object)) {
			kept.Set(reflect.Append(kept, item.Elem()))
		}
	}
	if kept.Len() == 0 {
		return nil
	}
	object := list.Interface().(runtime.Object)
	object.GetObjectKind().SetGroupVersionKind(k.Resource.GroupVersion().WithKind(k.Kind + "List"))
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode %s: %w", k.Resource.Resource, err)
	}
	resource := k.Resource.GroupResource().String()
	a.files[resource]++
	return WriteFile(a.To, path.Join(a.Folder, "objects", fmt.Sprintf("%s-%04d.json", resource, a.files[resource])), text)
}

// writeError is an error of the archive itself.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// WriteFile adds a file to an archive. Only the user may read it once it is extracted.
func WriteFile(to *tar.Writer, name string, content []byte) error {
	err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: time.Now()})
	if err == nil {
		_, err = to.Write(content)
	}
	if err != nil {
		return &writeError{fmt.Errorf("write %s into the archive: %w", name, err)}
	}
	return nil
}
