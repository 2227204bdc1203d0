// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand" //nolint:depguard // required by randfill
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/testing/campaign"
)

// encode encodes a list as the API server does.
func encode(t *testing.T, k Kind, list runtime.Object, options protobuf.SerializerOptions) []byte {
	t.Helper()
	var body bytes.Buffer
	codec := serializer.NewCodecFactory(scheme).EncoderForVersion(protobuf.NewSerializerWithOptions(scheme, scheme, options), k.Resource.GroupVersion())
	if err := codec.Encode(list, &body); err != nil {
		t.Fatal(err)
	}
	return body.Bytes()
}

func decode(k Kind, dropped fields, from io.Reader) (*list, error) {
	l := &list{kind: k, dropped: dropped, from: bufio.NewReader(from), body: &bytes.Buffer{}}
	return l, l.protobuf()
}

// TestDecodesAsTrim: the objects of an answer in protobuf, of each kind and with random fields, are those that Trim
// leaves of what the decoder of apimachinery decodes.
func TestDecodesAsTrim(t *testing.T) {
	t.Parallel()
	seed := campaign.Begin(t)
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(int64(seed)), serializer.NewCodecFactory(scheme)).NilChance(0.2).NumElements(1, 3)
	for _, k := range Kinds() {
		if _, ok := k.New().(interface{ Unmarshal([]byte) error }); !ok {
			continue // of JSON only
		}
		for range campaign.Scale(3, 500) {
			encoded := reflect.New(k.list)
			items := encoded.Elem().FieldByName("Items")
			for range 3 {
				object := reflect.New(k.pointer.Elem())
				fill.Fill(object.Interface())
				items.Set(reflect.Append(items, object.Elem()))
			}
			encoded.Interface().(metav1.ListInterface).SetContinue("next")
			body := encode(t, k, encoded.Interface().(runtime.Object), protobuf.SerializerOptions{StreamingCollectionsEncoding: seed%2 == 0})
			got, err := decode(k, trimmed[k.pointer], bytes.NewReader(body))
			if err != nil {
				t.Fatalf("%s: %v", k.Kind, err)
			}
			if got.meta.Continue != "next" {
				t.Errorf("%s: the continue token is %q", k.Kind, got.meta.Continue)
			}
			reference := reflect.New(k.list)
			if _, _, err := decoder.Decode(body, nil, reference.Interface().(runtime.Object)); err != nil {
				t.Fatal(err)
			}
			for i, item := range got.items {
				want := reference.Elem().FieldByName("Items").Index(i).Addr().Interface().(Object)
				Trim(want)
				if diff := cmp.Diff(want, item.Interface()); diff != "" {
					t.Fatalf("%s (-Trim +decoded):\n%s", k.Kind, diff)
				}
			}
			if len(got.items) != 3 {
				t.Errorf("%s: %d items", k.Kind, len(got.items))
			}
		}
	}
}

// TestTruncated: an answer that ends early is an error, wherever it ends.
func TestTruncated(t *testing.T) {
	t.Parallel()
	pods := KindOf[*corev1.Pod]()
	body := encode(t, pods, &corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}}, protobuf.SerializerOptions{})
	after := 0 // the list: what follows is empty
	for end := range body {
		l, err := decode(pods, trimmed[pods.pointer], bytes.NewReader(body[:end]))
		switch {
		case len(l.items) == 2:
			after++
		case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("the first %d of %d bytes: error %v, items %d", end, len(body), err, len(l.items))
		}
	}
	if after > 5 {
		t.Errorf("%d of %d bytes are not needed", after, len(body))
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	pods := KindOf[*corev1.Pod]()
	for name, tc := range map[string]struct {
		body []byte
		want string
	}{
		"another kind": {
			body: encode(t, KindOf[*corev1.Node](), &corev1.NodeList{}, protobuf.SerializerOptions{}),
			want: "the answer is a NodeList and not a PodList",
		},
		"a field without a size":     {body: []byte(protobufPrefix + "\x08\x01"), want: "field 1 has type 0 of protobuf"},
		"an object beyond the list":  {body: []byte(protobufPrefix + "\x12\x03\x12\x7fa"), want: io.ErrUnexpectedEOF.Error()},
		"an object that is no field": {body: []byte(protobufPrefix + "\x12\x03\x12\x01\xff"), want: "unexpected EOF"},
		"a negative size":            {body: []byte(protobufPrefix + "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), want: "field 2 has 18446744073709551615 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decode(pods, trimmed[pods.pointer], bytes.NewReader(tc.body))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestJSON: the items of an answer in JSON are trimmed, too.
func TestJSON(t *testing.T) {
	t.Parallel()
	text := `{"kind": "LocalDiskReportList", "apiVersion": "stowage.dev/v1alpha1", "metadata": {"continue": "next"},
		"items": [{"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}, "spec": {"nodeName": "a"}}]}`
	k := KindOf[*stowage.LocalDiskReport]()
	l := &list{kind: k, dropped: trimmed[k.pointer], from: bufio.NewReader(strings.NewReader(text)), body: &bytes.Buffer{}}
	if err := l.json(); err != nil {
		t.Fatal(err)
	}
	want := &stowage.LocalDiskReport{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: stowage.LocalDiskReportSpec{NodeName: "a"}}
	if diff := cmp.Diff([]any{want, "next"}, []any{l.items[0].Interface(), l.meta.Continue}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "a"}, Annotations: map[string]string{"k": "v"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Spec: corev1.PodSpec{
			NodeName:   "n",
			Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "E"}}, Ports: []corev1.ContainerPort{{HostPort: 80}}}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ContainerID: "id", AllocatedResources: corev1.ResourceList{}}}},
	}
	Trim(pod)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{HostPort: 80}}}}},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", AllocatedResources: corev1.ResourceList{}}}},
	}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
