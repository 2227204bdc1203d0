// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"testing"

	"stowage.dev/stowage/test/perf/loadmodel/model"
)

// TestRun places more pods than the cluster has volumes. The run itself checks
// that no volume is given twice, that all pods are placed, and that the cache's
// invariants hold in the end.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*model.Config){
		"the published mix": func(*model.Config) {},
		"only pods with four claims, six of ten volumes occupied": func(c *model.Config) {
			c.FourClaims, c.Returning, c.Occupied = 1, 0, 0.6
		},
		"only pods that return": func(c *model.Config) { c.FourClaims, c.Returning = 0, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := model.Default(150, 1000)
			change(&cfg)
			p, err := model.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if volumes, _ := p.Value("volumes"); volumes != 1500 || p.Iters != 1000 {
				t.Errorf("%v volumes and %d pods, want 1500 and 1000", volumes, p.Iters)
			}
			for _, unit := range []string{"PreFilter-sec", "Filter-sec", "event-sec", "start-sec"} {
				if v, _ := p.Value(unit); v <= 0 {
					t.Errorf("%s is %v: %+v", unit, v, p)
				}
			}
		})
	}
}

func TestRunRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]model.Config{
		"too few pods":     model.Default(100, 9),
		"too few nodes":    model.Default(1, 100),
		"nothing is free":  {Nodes: 100, VolumesPerNode: 10, Pods: 10, Occupied: 1},
		"shares above one": {Nodes: 100, VolumesPerNode: 10, Pods: 10, Occupied: 0.5, FourClaims: 0.6, Returning: 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if p, err := model.Run(t.Context(), cfg); err == nil {
				t.Errorf("ran: %+v", p)
			}
		})
	}
}
