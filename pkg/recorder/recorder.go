// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recorder records events. It is the recorder of client-go, but for two things. That one counts an
// event as a repetition of an earlier one if both are about the same objects, with the same type, reason and
// action, whatever their notes say, and does not write the later note for some minutes
// (kubernetes/kubernetes#112365). Here events with different notes are different events. And it does not cut
// notes that the API server rejects as too long.
package recorder

import (
	"context"
	"fmt"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// maxNote is the longest note of an event in bytes (k8s.io/kubernetes/pkg/apis/core/validation/events.go).
const maxNote = 1024

// separator separates the action of an event from its note, between Recorder and sink. No action has it.
const separator = "\n"

// Recorder records events. It is safe for concurrent use.
type Recorder struct {
	recorder    events.EventRecorder
	broadcaster events.EventBroadcaster
}

var _ events.EventRecorder = (*Recorder)(nil)

// Start returns a Recorder that writes events until ctx ends or Shutdown is called. scheme has the kinds of
// the objects that events are about.
func Start(ctx context.Context, client eventsclient.EventsV1Interface, scheme *runtime.Scheme, component string) (*Recorder, error) {
	broadcaster := events.NewBroadcaster(sink{&events.EventSinkImpl{Interface: client}})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		broadcaster.Shutdown()
		return nil, fmt.Errorf("record events: %w", err)
	}
	return &Recorder{broadcaster.NewRecorder(scheme, component), broadcaster}, nil
}

// Shutdown ends the writing of events.
func (r *Recorder) Shutdown() { r.broadcaster.Shutdown() }

// Eventf records an event. The action, which client-go compares, has the note until the event is written.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	note = stowage.CutBytes(fmt.Sprintf(note, args...), maxNote)
	r.recorder.Eventf(regarding, related, eventtype, reason, action+separator+note, "%s", note)
}

// sink writes events without the note in their action.
type sink struct{ events.EventSink }

// Create creates an event. Repetitions are patches, which do not have the action.
func (s sink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	event = event.DeepCopy()
	event.Action, _, _ = strings.Cut(event.Action, separator)
	return s.EventSink.Create(ctx, event)
}
