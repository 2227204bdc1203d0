// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
)

// TestBindCancelled: the caller goes away while the API server is asked to write.
// Until that has come to its end another call is turned away; afterwards nothing stays
// of the first, and the next one binds.
func TestBindCancelled(t *testing.T) {
	t.Parallel()
	p := pod("p", "c")
	w := newWorld(t, extender.ModeFull, localClass(), node("a"), volume("v", "a", "1Gi").Obj(), claim("c", "1Gi").Obj(), p)
	asked, goOn, later := make(chan struct{}), make(chan struct{}), atomic.Bool{}
	w.client.PrependReactor("update", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if later.Swap(true) {
			return false, nil, nil
		}
		close(asked)
		<-goOn
		return true, nil, context.Canceled // as a client of an API server whose call is cancelled
	})
	body, err := json.Marshal(bindArgs(p, "a"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan *httptest.ResponseRecorder)
	go func() {
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, "/"+VerbBind, bytes.NewReader(body)))
		answered <- answer
	}()
	<-asked
	cancel()
	if answer := <-answered; !strings.Contains(answer.Body.String(), context.Canceled.Error()) {
		t.Errorf("the call that was cancelled is answered with %q", answer.Body)
	}
	if err, want := w.bindTo(p, "a"), `an earlier call is still binding the pod to node "a"`; err != want {
		t.Errorf("a call meanwhile: error %q, want %q", err, want)
	}
	close(goOn)
	w.wantIdle(t)
	if len(w.holds.byPod) != 0 {
		t.Error("the pod is held to a node")
	}
	pv, err := w.client.CoreV1().PersistentVolumes().Get(t.Context(), "v", metav1.GetOptions{})
	if err != nil || pv.Spec.ClaimRef != nil || w.on(p) != "" {
		t.Fatalf("error %v, volume names %v, pod is on %q", err, pv.Spec.ClaimRef, w.on(p))
	}
	if err := w.bindTo(p, "a"); err != "" || w.claim("c").Spec.VolumeName != "v" || w.on(p) != "a" {
		t.Errorf("the next call: error %q, claim has %q, pod is on %q", err, w.claim("c").Spec.VolumeName, w.on(p))
	}
	w.wantIdle(t)
}
