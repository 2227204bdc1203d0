// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/cluster"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args        []string
		controllers cluster.ControllerManagerConfig
		fails       bool
	}{
		"nothing is the default":     {},
		"volume controllers":         {args: []string{"-controllers=volume"}, controllers: cluster.ControllerManagerConfig{Controllers: cluster.VolumeControllers}},
		"all controllers":            {args: []string{"-controllers=all"}, controllers: cluster.ControllerManagerConfig{Controllers: cluster.AllControllers}},
		"no controllers":             {args: []string{"-controllers=none"}, controllers: cluster.ControllerManagerConfig{Disabled: true}},
		"controllers by name":        {args: []string{"-controllers=*,-job-controller"}, controllers: cluster.ControllerManagerConfig{Controllers: []string{"*", "-job-controller"}}},
		"fewer nodes than none":      {args: []string{"-nodes=-1"}, fails: true},
		"fewer real nodes than none": {args: []string{"-real=-1"}, fails: true},
		"images for simulated nodes": {args: []string{"-images=stowage.tar"}, fails: true},
		"a flag that is not one":     {args: []string{"-no-such-flag"}, fails: true},
		"a flag without its dash":    {args: []string{"keep"}, fails: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := parse(tc.args)
			if (err != nil) != tc.fails {
				t.Fatalf("error %v, want one: %t", err, tc.fails)
			}
			if tc.fails {
				return
			}
			if diff := cmp.Diff(tc.controllers, o.controllerManager()); diff != "" {
				t.Errorf("controllers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"no command": nil, "an unknown command": {"down"}, "build takes flags only": {"build", "all"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := run(t.Context(), args); err == nil {
				t.Error("it runs")
			}
		})
	}
	if err := run(t.Context(), []string{"up", "-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("up -h: %v, want %v", err, flag.ErrHelp)
	}
}
