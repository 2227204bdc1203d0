// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/live"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// TestQuestions: answers as JSON, and errors in one line.
func TestQuestions(t *testing.T) {
	t.Parallel()
	r := open(t, newSource(zone("a", "z")), answers{
		why: func(_ context.Context, object v1alpha1.Reference) (any, error) {
			switch object.Name {
			case "gone":
				return nil, NotFoundError(`there is no node "gone"`)
			case "two":
				return nil, errors.New("there\nare two")
			}
			return object, nil
		},
		fit: func(q FitQuestion) (*v1alpha1.Fit, error) {
			if q.Claims == "" {
				return nil, errors.New("claims: missing")
			}
			return &v1alpha1.Fit{Sentence: fmt.Sprintf("%+v", q)}, nil
		},
	})
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/why?kind=disk&name=a/c/d%20e":         {http.StatusOK, `{"kind":"disk","name":"a/c/d e"}`},
		"/why?kind=pvc&namespace=ns&name=c":     {http.StatusOK, `{"kind":"pvc","namespace":"ns","name":"c"}`},
		"/why?kind=node&name=gone":              {http.StatusNotFound, `{"error":"there is no node \"gone\""}`},
		"/why?kind=node&name=two":               {http.StatusBadRequest, `{"error":"there are two"}`},
		"/why?kind=node":                        {http.StatusBadRequest, `{"error":"name: must not be empty"}`},
		"/why?kind=secret&name=x":               {http.StatusBadRequest, `{"error":"kind: must be one of pod, pvc, pv, disk, node, and is \"secret\""}`},
		"/fit?claims=1Gi&replicas=max":          {http.StatusOK, `"sentence":"{Claims:1Gi Replicas:max Namespace: OnePerNode:false}"`},
		"/fit?claims=1Gi&onePerNode=true":       {http.StatusOK, `OnePerNode:true`},
		"/fit?claims=1Gi&onePerNode=perhaps":    {http.StatusBadRequest, `{"error":"onePerNode: must be true or false, and is \"perhaps\""}`},
		"/fit":                                  {http.StatusBadRequest, `{"error":"claims: missing"}`},
		"/fit?claims=1Gi&namespace=ns":          {http.StatusOK, `Namespace:ns`},
		"/none":                                 {http.StatusNotFound, `{"error":"There is no such page."}`},
		"/why?kind=node&name=a&name=b&kind=pod": {http.StatusOK, `{"kind":"node","name":"a"}`},
	} {
		response, body := r.do(path, nil)
		if response.StatusCode != want.status || !strings.Contains(body, want.body) || response.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: status %d, %s %s; want %d, %s", path, response.StatusCode, response.Header.Get("Content-Type"), body, want.status, want.body)
		}
	}
	reader := open(t, newSource(), answers{})
	if response, body := reader.do("/fit?claims=1Gi", nil); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("before the cluster is read: status %d, %s", response.StatusCode, body)
	}
}

// TestAnswersAreCurrent: while the connection stands, an answer is about now, although nothing changed since the snapshot was
// made; else it is about the time when the connection was lost.
func TestAnswersAreCurrent(t *testing.T) {
	t.Parallel()
	s := newSource(zone("a", "z"))
	made := time.Now().Add(-time.Hour)
	s.snapshot = s.snapshot.At(made)
	var at time.Time
	r := open(t, s, answers{
		why:  func(context.Context, v1alpha1.Reference) (any, error) { return &v1alpha1.StorageReport{}, nil },
		seen: func(s *snapshot.Snapshot) { at = s.Time },
	})
	r.do("/why?kind=node&name=a", nil)
	if since := time.Since(at); since < 0 || since > 30*time.Minute {
		t.Errorf("the answer is about %s ago", since)
	}
	s.connect(live.Connection{Err: errors.New("connection refused")})
	r.do("/why?kind=node&name=a", nil)
	if !at.Equal(made) {
		t.Errorf("without a connection the answer is about %s, want %s", at, made)
	}
	if !s.snapshot.Time.Equal(made) {
		t.Error("the snapshot of the source was changed")
	}
}

// TestQuestionsAreBounded: few are answered at a time, and one whose browser is gone is not answered.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	asked, proceed := make(chan string), make(chan struct{})
	r := open(t, newSource(zone("a", "z")), answers{why: func(ctx context.Context, object v1alpha1.Reference) (any, error) {
		asked <- object.Name
		select {
		case <-proceed:
		case <-ctx.Done():
		}
		return object, ctx.Err()
	}})
	ask := func(ctx context.Context, name string) <-chan error {
		answered := make(chan error, 1)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.host+"/why?kind=node&name="+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.AddCookie(r.cookie)
		go func() {
			response, err := http.DefaultClient.Do(request)
			if err == nil {
				err = response.Body.Close()
			}
			answered <- err
		}()
		return answered
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := ask(ctx, "first")
	<-asked
	second := ask(t.Context(), "second")
	<-asked
	third := ask(t.Context(), "third")
	if n := len(r.server.questions); n != maxQuestions {
		t.Errorf("%d are being answered", n)
	}
	cancel() // the third one takes its turn
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the question that was canceled: %v", err)
	}
	if name := <-asked; name != "third" {
		t.Errorf("%s is asked, want the third", name)
	}
	close(proceed)
	for _, answered := range []<-chan error{second, third} {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}
