// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"stowage.dev/stowage/test/integration/fixture"
)

// gate is an extender that the scheduler calls last. It lets all nodes through, and its
// first answer waits until it is opened.
type gate struct {
	*httptest.Server
	reached, opened chan struct{}
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{reached: make(chan struct{}, 1), opened: make(chan struct{})}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case g.reached <- struct{}{}:
		default: // not the first
		}
		select {
		case <-g.opened:
		case <-r.Context().Done():
		}
		_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames}) // the caller may have given up
	}))
	t.Cleanup(g.Close)
	return g
}

// TestVolumeTaken: between filter and bind another pod takes the volume. The pod's user
// reads so, and the pod is tried again.
func TestVolumeTaken(t *testing.T) {
	t.Parallel()
	e, g := fixture.New(t), newGate(t)
	last := fmt.Sprintf("- urlPrefix: %s\n  filterVerb: filter\n  nodeCacheCapable: true\n  httpTimeout: 1m\nleaderElection:\n", g.URL)
	d := own(e, plan{mode: "full", name: "extender-taken", also: []string{"nobody"}, scheduler: []string{"leaderElection:\n", last}})
	e.AddNodes(e.Node("a"))
	e.CreatePVs(e.LocalPV("v", "a"))
	e.CreatePVC(e.PVC("mine"))
	e.CreatePVC(e.PVC("theirs"))
	other := e.CreatePod(e.Pod("other").SchedulerName("nobody").PVC("theirs"))
	pod := e.CreatePod(e.Pod("pod").PVC("mine"))
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	select {
	case <-g.reached:
	case <-ctx.Done():
		t.Fatalf("the scheduler did not filter\n%s", e.Dump())
	}
	foreign := e.CreatePod(e.Pod("foreign").SchedulerName("stranger").PVC("theirs"))
	d.bind(ctx, t, foreign, e.Name("a"), `scheduler \"stranger\"`)
	d.bind(ctx, t, other, e.Name("a"), `"Error":""`)
	e.WaitBound("theirs", "v")
	words := fmt.Sprintf("volumes on node %q changed while the pod was being scheduled: node(s) %s", e.Name("a"), noVolume)
	waitCondition(e, "pod", words, func() { close(g.opened) })
	e.CreatePVs(e.LocalPV("w", "a"))
	e.WaitScheduled(pod, "a")
	e.WaitBound("mine", "w")
	e.NoVolumeTwice()
}

// bind binds the pod, as its scheduler would, and expects an answer that contains words.
func (d *deployment) bind(ctx context.Context, t *testing.T, pod *v1.Pod, node, words string) {
	t.Helper()
	body, err := json.Marshal(extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	client := d.client(t, d.certs.authority, clientName, time.Now().Add(time.Hour))
	status, answer, err := d.call(ctx, client, "bind", bytes.NewReader(body))
	if err != nil || status != http.StatusOK || !strings.Contains(answer, words) {
		t.Fatalf("bind: status %d, error %v, answer %q, want %q", status, err, answer, words)
	}
}
