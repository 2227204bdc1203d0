// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// kinds are those that Answers.Why explains.
var kinds = []string{"pod", "pvc", "pv", "disk", "node"}

// why answers why an object is in its state.
func (s *Server) why(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	object := v1alpha1.Reference{Kind: query.Get("kind"), Namespace: query.Get("namespace"), Name: query.Get("name")}
	switch {
	case !slices.Contains(kinds, object.Kind):
		answerError(w, http.StatusBadRequest, fmt.Errorf("kind: must be one of %s, and is %q", strings.Join(kinds, ", "), object.Kind))
	case object.Name == "":
		answerError(w, http.StatusBadRequest, errors.New("name: must not be empty"))
	default:
		s.answer(w, r, func(ctx context.Context, now *snapshot.Snapshot) (any, error) { return s.Answers.Why(ctx, now, object) })
	}
}

// fit answers how many replicas would be placed.
func (s *Server) fit(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	q := FitQuestion{Claims: query.Get("claims"), Replicas: query.Get("replicas"), Namespace: query.Get("namespace")}
	if text := query.Get("onePerNode"); text != "" {
		var err error
		if q.OnePerNode, err = strconv.ParseBool(text); err != nil {
			answerError(w, http.StatusBadRequest, fmt.Errorf("onePerNode: must be true or false, and is %q", text))
			return
		}
	}
	s.answer(w, r, func(ctx context.Context, now *snapshot.Snapshot) (any, error) { return s.Answers.Fit(ctx, now, q) })
}

// answer answers a question about the newest snapshot once few others are being answered.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, ask func(context.Context, *snapshot.Snapshot) (any, error)) {
	ctx := r.Context()
	select {
	case s.questions <- struct{}{}:
		defer func() { <-s.questions }()
	case <-ctx.Done():
		return
	}
	now := s.Source.Snapshot()
	if now == nil {
		answerError(w, http.StatusServiceUnavailable, errors.New(reading))
		return
	}
	if s.From == "" && s.Source.Connection().Err == nil {
		now = now.At(time.Now()) // nothing changed since it was made
	}
	answer, err := ask(ctx, now)
	if _, missing := errors.AsType[NotFoundError](err); missing {
		answerError(w, http.StatusNotFound, err)
		return
	}
	if err != nil {
		answerError(w, http.StatusBadRequest, err)
		return
	}
	answerJSON(w, http.StatusOK, answer)
}

// answerError answers with an error.
func answerError(w http.ResponseWriter, status int, err error) {
	answerJSON(w, status, map[string]string{"error": oneLine(err)})
}

func answerJSON(w http.ResponseWriter, status int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(content) // the browser is gone
}

// oneLine returns the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
