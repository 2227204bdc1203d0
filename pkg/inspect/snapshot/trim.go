// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// unread are fields that take much of the memory of a large cluster and that nothing reads: no plugin of a scheduler of
// the pod that it schedules or of others, except ImageLocality, and no answer about a pod, a claim, a volume, a disk or
// a map. What depends on them must read objects whole (Query.Whole). Paths are those of manifests; the items of a list
// have the path of the list.
var unread = map[reflect.Type][]string{
	reflect.TypeFor[*corev1.Pod](): slices.Concat(
		[]string{
			"metadata.annotations", "spec.ephemeralContainers", "spec.securityContext", "spec.imagePullSecrets",
			"spec.hostAliases", "spec.dnsConfig", "status.hostIPs", "status.podIPs", "status.ephemeralContainerStatuses",
		},
		below("spec.containers", unreadOfContainers...), below("spec.initContainers", unreadOfContainers...),
		below("status.containerStatuses", unreadOfStatuses...), below("status.initContainerStatuses", unreadOfStatuses...),
	),
	// Their names are most of a node's size.
	reflect.TypeFor[*corev1.Node](): {"status.images", "status.volumesInUse", "status.volumesAttached"},
}

var (
	unreadOfContainers = []string{
		"command", "args", "workingDir", "env", "envFrom", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
		"terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext",
		// bindMountOptions are a feature that nodes declare.
		"volumeMounts.name", "volumeMounts.mountPath", "volumeMounts.subPath", "volumeMounts.subPathExpr",
	}
	// unreadOfStatuses leave the resources, which are those of a pod while it is resized.
	unreadOfStatuses = []string{"state", "lastState", "image", "imageID", "containerID", "volumeMounts", "user", "allocatedResourcesStatus"}
)

// managed is a path that all objects have, and nothing reads.
const managed = "metadata.managedFields"

func below(path string, names ...string) []string {
	var all []string
	for _, name := range names {
		all = append(all, path+"."+name)
	}
	return all
}

// fields are the fields of a struct that are dropped, and those that have such fields.
type fields []field

type field struct {
	index  int              // of the Go struct
	number protowire.Number // in protobuf
	below  fields           // what of the field is dropped; nil for the whole field
}

// trimmed are the fields that Trim drops, and whole those that are dropped of whole objects, by type.
var trimmed, whole = func() (trimmed, whole map[reflect.Type]fields) {
	trimmed, whole = map[reflect.Type]fields{}, map[reflect.Type]fields{}
	for _, k := range Kinds() {
		whole[k.pointer] = fieldsOf(k.pointer.Elem(), managed)
		trimmed[k.pointer] = fieldsOf(k.pointer.Elem(), append(slices.Clone(unread[k.pointer]), managed)...)
	}
	return trimmed, whole
}()

// fieldsOf returns the fields of a struct by their paths. It panics if one does not exist.
func fieldsOf(t reflect.Type, paths ...string) fields {
	names := map[string][]string{}
	for _, path := range paths {
		name, rest, _ := strings.Cut(path, ".")
		names[name] = append(names[name], rest)
	}
	var all fields
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		rest, dropped := names[name]
		if !dropped {
			continue
		}
		delete(names, name)
		f := field{index: i, number: numberOf(t.Field(i))}
		if rest[0] != "" {
			inner := t.Field(i).Type
			if inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			f.below = fieldsOf(inner, rest...)
		}
		all = append(all, f)
	}
	for name := range names {
		panic(fmt.Sprintf("%s has no field %s", t, name))
	}
	return all
}

// numberOf returns the number of a field of a Go struct in protobuf; 0 for types of JSON only.
func numberOf(f reflect.StructField) protowire.Number {
	_, rest, _ := strings.Cut(f.Tag.Get("protobuf"), ",")
	text, _, _ := strings.Cut(rest, ",")
	number, _ := strconv.Atoi(text)
	return protowire.Number(number)
}

// Trim drops fields of an object that nothing reads, such as managed fields, the environment of containers and the images
// of nodes. It changes the object.
func Trim(object Object) { trimmed[reflect.TypeOf(object)].clear(reflect.ValueOf(object).Elem()) }

// clear drops the fields of a struct.
func (f fields) clear(of reflect.Value) {
	for _, dropped := range f {
		switch value := of.Field(dropped.index); {
		case dropped.below == nil:
			value.SetZero()
		case value.Kind() == reflect.Slice:
			for i := range value.Len() {
				dropped.below.clear(value.Index(i))
			}
		default:
			dropped.below.clear(value)
		}
	}
}

// cut drops the fields of a message of protobuf, which it overwrites, and returns what is left of it.
func (f fields) cut(message []byte) ([]byte, error) {
	left := message[:0]
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil, protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		whole := message[:tag+size]
		message = message[tag+size:]
		i := slices.IndexFunc(f, func(f field) bool { return f.number == number })
		switch {
		case i < 0:
			left = append(left, whole...)
		case f[i].below == nil:
		default:
			value, _ := protowire.ConsumeBytes(whole[tag:])
			cut, err := f[i].below.cut(value)
			if err != nil {
				return nil, err
			}
			left = append(left, whole[:tag]...)
			left = appendSize(left, len(cut), len(whole)-tag-len(value))
			left = append(left, cut...)
		}
	}
	return left, nil
}

// appendSize appends a size as a varint of a width: that of a larger size, so that what follows it is overwritten only
// after it was read.
func appendSize(to []byte, size, width int) []byte {
	for range width - 1 {
		to = append(to, byte(size)|0x80)
		size >>= 7
	}
	return append(to, byte(size))
}
