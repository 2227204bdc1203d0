// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestWhoWritesWhat: which writes of a binding the scheduler sends itself.
func TestWhoWritesWhat(t *testing.T) {
	t.Parallel()
	reserve, bind := "update persistentvolumes", "update persistentvolumeclaims"
	tests := map[string]struct {
		args *configv1.VolumeTopologyArgs
		user string
		// writes to volumes and claims, first occurrences in order. Beyond
		// these, the scheduler and the PV controller race for the statuses; and
		// where the former binds a claim, the latter may be first. For some
		// pods it never is for all.
		want []string
	}{
		"Direct, the default: claim and volume": {
			want: []string{reserve, bind},
		},
		"PVController: the volume only": {
			args: fixture.PVControllerArgs(),
			want: []string{reserve},
		},
		"Direct with the rights of a stock scheduler, which are too few: the volume only": {
			user: cluster.SchedulerUser,
			want: []string{reserve},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			tap := fixture.NewTap()
			s := e.Start(fixture.SchedulerOptions{Tap: tap, User: test.user, Profiles: []fixture.Profile{{Args: test.args}}})
			e.Use(s.Name())
			e.AddNodes(e.Node("a"))
			for i := range 5 {
				data, volume := fmt.Sprint("data-", i), fmt.Sprint("volume-", i)
				pod := create(e, scene{
					volumes: []*builders.PV{e.LocalPV(volume, "a")},
					claims:  []*builders.PVC{e.PVC(data)},
					pod:     e.Pod(fmt.Sprint("pod-", i)).PVC(data),
				})
				e.WaitScheduled(pod, "a")
				e.WaitBound(data, volume)
			}
			var got []string
			for _, r := range tap.Writes() {
				what := r.Verb + " " + r.Resource
				if r.Subresource == "" && (what == reserve || what == bind) && !slices.Contains(got, what) {
					got = append(got, what)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s\nall: %v", diff, tap.Writes())
			}
		})
	}
}
