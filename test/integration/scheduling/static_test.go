// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// bothModes runs a test with each binding mode.
func bothModes(t *testing.T, test func(*testing.T, *fixture.Env)) {
	t.Helper()
	for _, profile := range fixture.SharedProfiles() {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			e.Use(profile)
			test(t, e)
		})
	}
}

// TestStaticWaitForFirstConsumer: the only node with enough volumes for all of
// the pod's claims gets the pod, and each claim a volume of its own.
func TestStaticWaitForFirstConsumer(t *testing.T) {
	t.Parallel()
	for claims := 1; claims <= 4; claims++ {
		t.Run(fmt.Sprintf("%d claims", claims), func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(t *testing.T, e *fixture.Env) {
				e.AddNodes(e.Node("few"), e.Node("enough"))
				var volumes []*builders.PV
				var names []string
				want := map[string]string{}
				for i := range claims {
					claim := fmt.Sprintf("claim-%d", i)
					volume := fmt.Sprintf("volume-%d", i)
					size := fmt.Sprintf("%dGi", i+1)
					volumes = append(volumes, e.LocalPV(volume, "enough").Capacity(size))
					if i > 0 {
						volumes = append(volumes, e.LocalPV(fmt.Sprintf("other-%d", i), "few").Capacity(size))
					}
					e.CreatePVC(e.PVC(claim).Request(size))
					names = append(names, claim)
					want[claim] = volume
				}
				e.CreatePVs(volumes...)
				pod := e.CreatePod(e.Pod("pod").PVC(names...))
				e.WaitScheduled(pod, "enough")
				for _, name := range names {
					e.WaitBound(name, "")
				}
				if diff := cmp.Diff(want, e.Bindings()); diff != "" {
					t.Errorf("volumes of claims (-want +got):\n%s", diff)
				}
				e.NoVolumeTwice()
			})
		})
	}
}
