// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
)

// TestRun places more pods than the cluster has volumes. The run itself checks
// that no volume is given twice, that all pods are placed, and that the cache's
// invariants hold in the end.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"the published mix": func(*Config) {},
		"only pods with four claims, six of ten volumes occupied": func(c *Config) {
			c.FourClaims, c.Returning, c.Occupied = 1, 0, 0.6
		},
		"only pods that return": func(c *Config) { c.FourClaims, c.Returning = 0, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Default(150, 1000)
			change(&cfg)
			p, err := Run(t.Context(), cfg)
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
	for name, cfg := range map[string]Config{
		"too few pods":     Default(100, 9),
		"too few nodes":    Default(1, 100),
		"nothing is free":  {Nodes: 100, VolumesPerNode: 10, Pods: 10, Occupied: 1},
		"shares above one": {Nodes: 100, VolumesPerNode: 10, Pods: 10, Occupied: 0.5, FourClaims: 0.6, Returning: 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if p, err := Run(t.Context(), cfg); err == nil {
				t.Errorf("ran: %+v", p)
			}
		})
	}
}
