// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"net/http"
	"strings"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
)

// TestPVController: the extender writes its decisions and the PV controller
// completes the bindings, because it is configured so, or because the extender lacks the rights.
func TestPVController(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	d := own(e, plan{mode: "full", name: "extender-controller", extender: []string{"bindingMode: Direct", "bindingMode: PVController"}})
	e.AddNodes(e.Node("a"), e.Node("b"))
	makes(e, true)
	setCapacity(e, "b", "20Gi")
	e.CreatePVs(e.LocalPV("one", "b"), e.LocalPV("two", "b"), e.LocalPV("elsewhere", "a"))

	bound := func(t *testing.T, n, disabled string) {
		t.Helper()
		e.CreatePVC(made(e, "made-"+n, "5Gi"))
		e.CreatePVC(e.PVC("static-" + n))
		pod := e.CreatePod(e.Pod("pod-"+n).PVC("made-"+n, "static-"+n))
		provision(e, waitSelected(e, "made-"+n, "b"))
		e.WaitScheduled(pod, "b")
		e.WaitBound("made-"+n, "pvc-made-"+n)
		e.WaitBound("static-"+n, "")
		e.NoVolumeTwice()
		status, text := d.replica[0].get(t.Context(), "/metrics")
		if status != http.StatusOK || !strings.Contains(text, `stowage_scheduler_bind_duration_seconds_count{mode="PVController"`) {
			t.Errorf("metrics, status %d, do not say that the PV controller binds", status)
		}
		want := "stowage_scheduler_direct_binding_disabled " + disabled + "\n"
		if !strings.Contains(text, want) {
			t.Errorf("metrics do not say %q", want)
		}
	}
	bound(t, "1", "0")

	// The same scheduler continues with an extender that lacks rights for Direct.
	if err := d.replica[0].process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.extender, d.account = nil, limited
	if err := d.start(e.Context(), d.replica[0]); err != nil {
		t.Fatal(err)
	}
	bound(t, "2", "1")
}
