// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"
)

// TestRoundTrip: writing and reading arguments, and the generated deep copies, lose nothing.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	roundtrip.RoundTripTestForScheme(t, newArgsScheme(), fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, fuzzerFuncs))
}

// fuzzerFuncs set the fields that defaulting would set when the object is read back.
func fuzzerFuncs(serializer.CodecFactory) []any {
	return []any{
		func(args *VolumeTopologyArgs, c randfill.Continue) {
			c.FillNoCustom(args)
			if args.BindingMode == "" {
				args.BindingMode = BindingModePVController
			}
			if args.Scoring.Strategy == "" {
				args.Scoring.Strategy = ScoringMostAllocated
			}
			if args.BindTimeoutSeconds == nil {
				args.BindTimeoutSeconds = new(c.Int63())
			}
			if args.Scoring.StaticWeightPercent == nil {
				args.Scoring.StaticWeightPercent = new(c.Int31())
			}
		},
	}
}

// FuzzDecodeArgs: no content makes DecodeArgs panic, and accepted arguments are valid and
// complete.
func FuzzDecodeArgs(f *testing.F) {
	f.Add(`{}`)
	f.Add(`{"bindTimeoutSeconds":0}`)
	f.Add(`{"scoring":{"strategy":"RequestedToCapacityRatio","shape":[{"utilization":0,"score":10}]}}`)
	f.Add("bindingMode: PVController\nscoring: {staticWeightPercent: 0}\n")
	f.Add(`{"scoring":null,"bindingMode":null}`)
	f.Add(`[`)
	f.Fuzz(func(t *testing.T, raw string) {
		args, err := DecodeArgs(unknown(raw))
		if err != nil {
			return
		}
		if *args.BindTimeoutSeconds < 1 || *args.BindTimeoutSeconds > 3600 || args.BindingMode == "" || args.Scoring.Strategy == "" {
			t.Errorf("DecodeArgs(%q) accepted incomplete arguments: %+v", raw, args)
		}
	})
}
