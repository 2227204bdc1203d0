// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
)

const (
	// maxNodes bounds the nodes of a message.
	maxNodes = 300
	// maxStreams bounds the browsers that are connected.
	maxStreams = 64
)

// board has the newest messages, and what of them each stream has not sent yet. A stream that is slow has only the names
// of what changed, so that it uses little memory and delays no other. It is safe for concurrent use.
type board struct {
	mu       sync.Mutex
	messages map[string][]byte // by event, without nodes
	state    state
	nodes    map[string]json.RawMessage // by name; nil until they are known
	streams  map[*stream]bool
}

// stream is a browser that is connected. The lock of the board guards its fields.
type stream struct {
	// wake has a value if there is something to send.
	wake   chan struct{}
	events map[string]bool // without nodes
	nodes  map[string]bool
	// began: nodes were sent; complete: all of them were.
	began, complete bool
}

// message is an event.
type message struct {
	event string
	data  []byte
}

func newBoard() *board {
	return &board{messages: map[string][]byte{}, streams: map[*stream]bool{}}
}

// open adds a stream, which has all to send. It returns nil if there are too many.
func (b *board) open() *stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.streams) == maxStreams {
		return nil
	}
	s := &stream{wake: make(chan struct{}, 1), events: map[string]bool{}, nodes: map[string]bool{}}
	for event := range b.messages {
		s.events[event] = true
	}
	for name := range b.nodes {
		s.nodes[name] = true
	}
	b.streams[s] = true
	s.signal()
	return s
}

func (b *board) close(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.streams, s)
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// set replaces the message of an event. If it changes, all streams send it.
func (b *board) set(event string, content any) {
	data := encode(content)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !bytes.Equal(b.messages[event], data) {
		b.messages[event] = data
		b.changed(event)
	}
}

// changed has all streams send an event. The caller holds the lock.
func (b *board) changed(event string) {
	for s := range b.streams {
		s.events[event] = true
		s.signal()
	}
}

// setState replaces the state. The time alone is no change.
func (b *board) setState(now state) {
	data := encode(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.state
	before.Time = now.Time
	_, known := b.messages[eventState]
	b.messages[eventState], b.state = data, now
	if !known || !bytes.Equal(encode(before), data) {
		b.changed(eventState)
	}
}

// setNodes replaces the nodes. Streams send those that changed.
func (b *board) setNodes(nodes map[string]*node) {
	next := make(map[string]json.RawMessage, len(nodes))
	for name, n := range nodes {
		next[name] = encode(n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var changed []string
	for name, data := range next {
		if before := b.nodes[name]; bytes.Equal(before, data) {
			next[name] = before // garbage that is older is kept
		} else {
			changed = append(changed, name)
		}
	}
	for name := range b.nodes {
		if next[name] == nil {
			changed = append(changed, name)
		}
	}
	first := b.nodes == nil
	b.nodes = next
	if !first && len(changed) == 0 {
		return
	}
	for s := range b.streams {
		for _, name := range changed {
			s.nodes[name] = true
		}
		s.signal()
	}
}

// next returns what a stream is to send now, and records that it does; nothing if it has sent all.
func (b *board) next(s *stream) []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []message
	for _, event := range []string{eventState, eventSummary, eventWaiting} {
		if s.events[event] {
			delete(s.events, event)
			all = append(all, message{event, b.messages[event]})
		}
	}
	if b.nodes != nil && (!s.began || len(s.nodes) > 0) {
		all = append(all, message{eventNodes, b.take(s)})
	}
	return all
}

// take returns the next nodes of a stream as they are now. The caller holds the lock.
func (b *board) take(s *stream) []byte {
	content := struct {
		Reset    bool              `json:"reset"`
		Complete bool              `json:"complete"`
		Nodes    []json.RawMessage `json:"nodes"`
		Removed  []string          `json:"removed"`
	}{Reset: !s.began, Nodes: []json.RawMessage{}, Removed: []string{}}
	names := slices.Sorted(maps.Keys(s.nodes))
	for _, name := range names[:min(len(names), maxNodes)] {
		delete(s.nodes, name)
		if data := b.nodes[name]; data != nil {
			content.Nodes = append(content.Nodes, data)
		} else {
			content.Removed = append(content.Removed, name)
		}
	}
	s.began, s.complete = true, s.complete || len(s.nodes) == 0
	content.Complete = s.complete
	return encode(content)
}

// encode returns a value of this package as JSON, which has no line breaks.
func encode(content any) []byte {
	data, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", content, err)) // its types have no values that JSON cannot represent
	}
	return data
}
