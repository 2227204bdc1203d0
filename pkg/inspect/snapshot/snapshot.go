// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot holds the objects of a cluster at a moment. They are read from an API server with
// the rights of a user, or from files. What could not be read is a part of a snapshot: an answer
// that depends on it must say so.
package snapshot

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
)

// Snapshot is the objects of a cluster. It is not changed once it is read: readers need no lock,
// and must not change its objects.
type Snapshot struct {
	// Time is when reading began; zero if files do not say.
	Time time.Time
	// Server is the version of the API server; nil if unknown.
	Server *version.Info
	// Gaps are what could not be read, sorted by resource and namespace.
	Gaps []Gap
	// absent are the resources that the API server does not serve.
	absent map[string]bool

	objects map[reflect.Type]any // []T by T
	read    map[string]bool      // resources that were requested
}

// Gap is objects that exist, perhaps, and are not in the snapshot.
type Gap struct {
	// Resource is the resource with its group, as in persistentvolumes or statefulsets.apps.
	Resource string `json:"resource"`
	// Except is the namespace whose objects could be read; empty if none could.
	Except string `json:"except,omitempty"`
	// Reason is the answer of the API server.
	Reason string `json:"reason"`
}

// String returns what is not in the snapshot.
func (g Gap) String() string {
	if g.Except != "" {
		return fmt.Sprintf("%s outside namespace %s", g.Resource, g.Except)
	}
	return g.Resource
}

// Of returns the objects of a type, in no order. They are shared: do not change them.
func Of[T Object](s *Snapshot) []T {
	objects, _ := s.objects[reflect.TypeFor[T]()].([]T)
	return objects
}

// Find returns an object by name; the zero T if it is not in the snapshot. It compares all objects:
// index them with By for more than a few.
func Find[T Object](s *Snapshot, namespace, name string) (found T) {
	for _, object := range Of[T](s) {
		if object.GetName() == name && object.GetNamespace() == namespace {
			return object
		}
	}
	return found
}

// Name is the namespace and name of an object.
type Name struct{ Namespace, Name string }

// By returns the objects of a type by name.
func By[T Object](s *Snapshot) map[Name]T {
	objects := Of[T](s)
	by := make(map[Name]T, len(objects))
	for _, object := range objects {
		by[Name{object.GetNamespace(), object.GetName()}] = object
	}
	return by
}

// Unseen returns what of the kinds is not in the snapshot.
func Unseen(s *Snapshot, kinds ...Kind) []string {
	var all []string
	for _, k := range kinds {
		resource := k.Resource.GroupResource().String()
		i := slices.IndexFunc(s.Gaps, func(g Gap) bool { return g.Resource == resource })
		if i >= 0 {
			all = append(all, s.Gaps[i].String())
		}
	}
	return all
}

// Complete reports whether all objects of a type are in the snapshot: they could be listed in all namespaces,
// or the API server serves none.
func Complete[T Object](s *Snapshot) bool {
	return s.CompleteOf(KindOf[T]())
}

// CompleteOf is Complete for a Kind.
func (s *Snapshot) CompleteOf(k Kind) bool {
	resource := k.Resource.GroupResource().String()
	return s.read[resource] && !slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Resource == resource })
}

// Served reports whether the API server serves a type. It is true if the type was not read.
func Served[T Object](s *Snapshot) bool {
	return !s.absent[KindOf[T]().Resource.GroupResource().String()]
}

// Build makes a snapshot of objects, which is complete. Objects without a UID get one.
func Build(objects ...Object) *Snapshot {
	s := empty()
	for _, k := range Kinds() {
		s.read[k.Resource.GroupResource().String()] = true
	}
	for _, object := range objects {
		identify(object)
		s.add(byPointer[reflect.TypeOf(object)], reflect.ValueOf(object))
	}
	return s
}

// Merge returns a snapshot of the objects of two. Its time and its server are those of the first. An object that
// both have is in it twice.
func Merge(a, b *Snapshot) *Snapshot {
	s := empty()
	s.Time, s.Server = a.Time, a.Server
	for _, from := range []*Snapshot{a, b} {
		for resource := range from.read {
			s.read[resource] = true
		}
		for resource, absent := range from.absent {
			s.absent[resource] = absent
		}
		for _, gap := range from.Gaps {
			if !slices.Contains(s.Gaps, gap) {
				s.Gaps = append(s.Gaps, gap)
			}
		}
		for pointer, objects := range from.objects {
			all := reflect.ValueOf(s.objects[pointer])
			if !all.IsValid() {
				all = reflect.MakeSlice(reflect.SliceOf(pointer), 0, 0)
			}
			s.objects[pointer] = reflect.AppendSlice(all, reflect.ValueOf(objects)).Interface()
		}
	}
	return s
}

// At returns the snapshot with another time: that until which its objects are known not to have changed.
func (s *Snapshot) At(t time.Time) *Snapshot {
	later := *s
	later.Time = t
	return &later
}

// identify gives an object of a manifest a UID, as an API server would.
func identify(object Object) {
	if object.GetUID() == "" {
		object.SetUID(types.UID(object.GetNamespace() + "/" + object.GetName()))
	}
}

func empty() *Snapshot {
	return &Snapshot{absent: map[string]bool{}, objects: map[reflect.Type]any{}, read: map[string]bool{}}
}

// add appends objects of a kind. Each is a pointer.
func (s *Snapshot) add(k Kind, pointers ...reflect.Value) {
	all := reflect.ValueOf(s.objects[k.pointer])
	if !all.IsValid() {
		all = reflect.MakeSlice(reflect.SliceOf(k.pointer), 0, len(pointers))
	}
	s.objects[k.pointer] = reflect.Append(all, pointers...).Interface()
}

// note records that a kind was read, what of it could not be, and whether the API server does not serve it.
func (s *Snapshot) note(k Kind, gap *Gap, absent bool) {
	resource := k.Resource.GroupResource().String()
	s.read[resource], s.absent[resource] = true, absent
	if gap != nil {
		s.Gaps = append(s.Gaps, *gap)
	}
}

func (s *Snapshot) sortGaps() {
	slices.SortFunc(s.Gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Except, b.Except))
	})
}

// Objects returns the objects of a kind, in no order, in a slice of the caller.
func (s *Snapshot) Objects(k Kind) []Object {
	all := reflect.ValueOf(s.objects[k.pointer])
	if !all.IsValid() {
		return nil
	}
	objects := make([]Object, all.Len())
	for i := range objects {
		objects[i] = all.Index(i).Interface().(Object)
	}
	return objects
}
