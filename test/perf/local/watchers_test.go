// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestEventsAreTold: the API server's events are counted without being decoded.
func TestEventsAreTold(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	kinds := []watch.EventType{watch.Added, watch.Modified, watch.Bookmark, watch.Deleted}
	frames := protobuf.LengthDelimitedFramer.NewFrameWriter(&stream)
	serializer := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme)
	for _, kind := range kinds {
		var object bytes.Buffer
		if err := serializer.Encode(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume"}}, &object); err != nil {
			t.Fatal(err)
		}
		event := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object.Bytes()}}
		if err := serializer.Encode(event, frames); err != nil {
			t.Fatal(err)
		}
	}
	w := &watchers{}
	if err := w.read(io.NopCloser(&stream)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if events, synced := w.events.Load(), w.synced.Load(); events != 3 || synced != 1 {
		t.Errorf("counted %d events, %d initial lists, want 3 and 1", events, synced)
	}
}

func TestWhatIsNoEventIsAnError(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]string{
		"another message":       "\x00\x00\x00\x03\x12\x01A",
		"a type beyond the end": "\x00\x00\x00\x03\x0a\x7fA",
		"nothing in it":         "\x00\x00\x00\x00",
		"cut off":               "\x00\x00\x00\x09\x0a\x05ADD",
	} {
		w := &watchers{}
		if err := w.read(io.NopCloser(strings.NewReader(stream))); err == nil || errors.Is(err, io.EOF) || w.events.Load() > 0 {
			t.Errorf("%s: %d events, %v", name, w.events.Load(), err)
		}
	}
}
