// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is one in the shape of JSON.
type object = map[string]any

// apiServer is a model of the API server for the requests of the controller: names are unique,
// writes are compare-and-swap if they have a resourceVersion or UID, an object with finalizers
// stays until they are removed, status is written by its subresource. It is a transport without
// a network.
type apiServer struct {
	objects map[key]object
	version int
	lists   int // requests for all objects of a kind
	now     func() time.Time
	// before is called with each write before it is made, and after it; an error is returned to the
	// client instead of the response.
	before, after func(write string) error
}

// key is where an object is.
type key struct{ resource, namespace, name string }

func (k key) String() string { return strings.Trim(k.resource+" "+k.namespace+"/"+k.name, "/") }

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts = parts[2:]; strings.HasPrefix(r.URL.Path, "/apis/") {
		parts = parts[1:]
	}
	var k key
	if parts[0] == "namespaces" {
		k.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	k.resource, k.name = parts[0], parts[1]
	if r.Method == http.MethodGet {
		return respond(s.get(k))
	}
	if r.Method == http.MethodPost {
		k.name = nameOf(body)
	}
	write := fmt.Sprintf("%s %s%s", r.Method, k, strings.TrimSuffix("/"+parts[2], "/"))
	if s.before != nil {
		if err := s.before(write); err != nil {
			return nil, err
		}
	}
	result, err := s.write(r.Method, k, parts[2], body)
	if s.after != nil {
		if err := s.after(write); err != nil {
			return nil, err
		}
	}
	return respond(result, err)
}

func nameOf(body []byte) string {
	var o struct{ Metadata struct{ Name string } }
	_ = json.Unmarshal(body, &o)
	return o.Metadata.Name
}

func (s *apiServer) get(k key) (object, error) {
	if k.name == "" {
		s.lists++
		items := []any{}
		for _, at := range s.keys(k.resource) {
			items = append(items, s.objects[at])
		}
		return object{"metadata": object{"resourceVersion": strconv.Itoa(s.version)}, "items": items}, nil
	}
	if o := s.objects[k]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: k.resource}, k.name)
}

// keys are those of a resource, sorted.
func (s *apiServer) keys(resource string) []key {
	var keys []key
	for k := range s.objects {
		if k.resource == resource {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

func (s *apiServer) write(method string, k key, subresource string, body []byte) (object, error) {
	var sent object
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	stored := s.objects[k]
	if method == http.MethodPost {
		if stored != nil {
			return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: k.resource}, k.name)
		}
		return s.create(k, sent), nil
	}
	if stored == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: k.resource}, k.name)
	}
	conditions, _ := sent["metadata"].(object)
	if method == http.MethodDelete {
		conditions, _ = sent["preconditions"].(object)
	}
	for _, name := range []string{"uid", "resourceVersion"} {
		if want, has := conditions[name]; has && want != nested(stored, "metadata", name) {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: k.resource}, k.name, errors.New(name))
		}
	}
	changed := clone(stored)
	switch {
	case method == http.MethodDelete:
		s.mark(k, changed)
	case method == http.MethodPatch:
		merge(changed, sent)
	case subresource == "status":
		changed["status"] = sent["status"]
	default:
		status := changed["status"]
		if changed = sent; status != nil {
			changed["status"] = status
		}
	}
	return s.store(k, stored, changed), nil
}

func (s *apiServer) create(k key, o object) object {
	o = clone(o)
	meta := o["metadata"].(object)
	if meta["uid"] == nil {
		meta["uid"] = "uid-" + strconv.Itoa(s.version+1)
	}
	meta["creationTimestamp"], meta["generation"] = s.now().UTC().Format(time.RFC3339), int64(1)
	if k.resource == "pavvolumes" || k.resource == "pavprovisioners" {
		delete(o, "status")
	}
	return s.store(k, nil, o)
}

// mark sets the time of deletion. A pod that has started has a grace period.
func (s *apiServer) mark(k key, o object) {
	meta := o["metadata"].(object)
	if meta["deletionTimestamp"] != nil {
		return
	}
	grace := 0
	phase, _ := nested(o, "status", "phase").(string)
	if k.resource == "pods" && nested(o, "spec", "nodeName") != nil && phase != "Succeeded" && phase != "Failed" {
		grace = 30
	}
	meta["deletionGracePeriodSeconds"] = int64(grace)
	meta["deletionTimestamp"] = s.now().Add(time.Duration(grace) * time.Second).UTC().Format(time.RFC3339)
}

// store stores an object; one that is being deleted and has no finalizers is removed.
func (s *apiServer) store(k key, before, o object) object {
	s.version++
	meta := o["metadata"].(object)
	meta["resourceVersion"] = strconv.Itoa(s.version)
	if before != nil && !reflect.DeepEqual(before["spec"], o["spec"]) {
		generation, _ := nested(before, "metadata", "generation").(float64)
		meta["generation"] = generation + 1
	}
	o = clone(o)
	finalizers, _ := nested(o, "metadata", "finalizers").([]any)
	graceful := k.resource == "pods" && nested(o, "metadata", "deletionGracePeriodSeconds") != float64(0)
	if nested(o, "metadata", "deletionTimestamp") != nil && len(finalizers) == 0 && !graceful {
		delete(s.objects, k)
		return o
	}
	s.objects[k] = o
	return o
}

// edit changes an object as another client; nothing happens if it does not exist.
func (s *apiServer) edit(k key, change func(o object)) {
	if before := s.objects[k]; before != nil {
		o := clone(before)
		change(o)
		if o = clone(o); !reflect.DeepEqual(o, before) {
			s.store(k, before, o)
		}
	}
}

// remove deletes an object as another client.
func (s *apiServer) remove(k key) { s.edit(k, func(o object) { s.mark(k, o) }) }

func nested(o object, fields ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o, fields...)
	return value
}

// clone returns a deep copy in which numbers are those of JSON.
func clone(o object) object { return cloned(o).(object) }

func cloned(value any) any {
	switch value := value.(type) {
	case object:
		c := make(object, len(value))
		for name, field := range value {
			c[name] = cloned(field)
		}
		return c
	case []any:
		c := make([]any, len(value))
		for i := range value {
			c[i] = cloned(value[i])
		}
		return c
	case int:
		return float64(value)
	case int64:
		return float64(value)
	default:
		return value
	}
}

// merge applies a JSON merge patch.
func merge(o, patch object) {
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(o, name)
		case object:
			inner, ok := o[name].(object)
			if !ok {
				inner = object{}
			}
			inner = maps.Clone(inner)
			merge(inner, value)
			o[name] = inner
		default:
			o[name] = value
		}
	}
}

func respond(result object, err error) (*http.Response, error) {
	code, body := http.StatusOK, any(result)
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, err
		}
		s := status.Status()
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		body, code = &s, int(s.Code)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
	}, nil
}
