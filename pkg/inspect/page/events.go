// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// keepAlive is how often a stream sends something.
	keepAlive = 15 * time.Second
	// sendTimeout is how long a browser may take to receive a message.
	sendTimeout = 30 * time.Second
)

// events sends the messages of the board, and then those that change.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	stream := s.board.open()
	if stream == nil {
		refuse(w, r, http.StatusServiceUnavailable, "Too many pages are open: close some of them.")
		return
	}
	defer s.board.close(stream)
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	client := http.NewResponseController(w)
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-alive.C:
			if send(w, client, ": alive\n\n") != nil {
				return
			}
		case <-stream.wake:
			for messages := s.board.next(stream); len(messages) > 0; messages = s.board.next(stream) {
				for _, m := range messages {
					if send(w, client, "event: %s\ndata: %s\n\n", m.event, m.data) != nil {
						return
					}
				}
			}
		}
	}
}

// send writes a part of a stream. An error means that the browser is gone, or does not read.
func send(w http.ResponseWriter, client *http.ResponseController, format string, args ...any) error {
	if err := client.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		return err
	}
	return client.Flush()
}
