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

// TestBindCancelled: the caller disconnects during a write. Another call is rejected until
// the bind has ended; then the first call has left no claimRef, and the next call binds.
func TestBindCancelled(t *testing.T) {
	t.Parallel()
	p := pod("p", "c")
	w := newTestbed(t, extender.ModeFull, localClass(), node("a"), volume("v", "a", "1Gi").Obj(), claim("c", "1Gi").Obj(), p)
	writing, resume, later := make(chan struct{}), make(chan struct{}), atomic.Bool{}
	w.client.PrependReactor("update", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if later.Swap(true) {
			return false, nil, nil
		}
		close(writing)
		<-resume
		return true, nil, context.Canceled // as a client returns for a cancelled request
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
	<-writing
	cancel()
	if answer := <-answered; !strings.Contains(answer.Body.String(), context.Canceled.Error()) {
		t.Errorf("the cancelled call is answered with %q", answer.Body)
	}
	if err, want := w.bindTo(p, "a"), `an earlier call is still binding the pod to node "a"`; err != want {
		t.Errorf("a concurrent call: error %q, want %q", err, want)
	}
	close(resume)
	w.wantIdle(t)
	if len(w.pins.binding)+len(w.pins.provisioning.Keys()) != 0 {
		t.Error("the pod is pinned to a node")
	}
	pv, err := w.client.CoreV1().PersistentVolumes().Get(t.Context(), "v", metav1.GetOptions{})
	if err != nil || pv.Spec.ClaimRef != nil || w.on(p) != "" {
		t.Fatalf("error %v, the volume has claimRef %v, pod is on %q", err, pv.Spec.ClaimRef, w.on(p))
	}
	if err := w.bindTo(p, "a"); err != "" || w.claim("c").Spec.VolumeName != "v" || w.on(p) != "a" {
		t.Errorf("the next call: error %q, claim has %q, pod is on %q", err, w.claim("c").Spec.VolumeName, w.on(p))
	}
	w.wantIdle(t)
}
