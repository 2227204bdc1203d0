// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// roundTrip encodes a configuration, and decodes that.
func roundTrip(t *testing.T, config *ProvisionerConfiguration) {
	t.Helper()
	encoded, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &keys); err != nil {
		t.Fatal(err)
	}
	data := map[string]string{}
	for key, value := range keys {
		data[key] = string(value)
	}
	again, err := Decode(data)
	if err != nil {
		t.Fatalf("the encoded configuration is rejected: %v\n%s", err, encoded)
	}
	if diff := cmp.Diff(config, again, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	everyClassKey := everything()
	everyClassKey[classMapKey] = `
fast: {hostDir: /mnt/fast, mountDir: /local-ssds, accessMode: ReadOnlyMany, fsType: xfs, namePattern: "a*,[b]?",
  blockCleanerCommand: [/bin/sh, -c, "one\n  two: 'yes'\n", "", "1"], fsCleanerCommand: [/opt/clean, "no"], cleanTimeout: 90m,
  existingData: Clean, allowDirectories: true, directoryPattern: "*", mount: Kubelet, volumeName: Reference, selector: []}
raw: {hostDir: /mnt/raw, volumeMode: Block, blockCleanerCommand: [shred, "9"], cleanTimeout: 0}
"010": {hostDir: /mnt/octal}
`
	for name, data := range map[string]map[string]string{
		"defaults":         classMap("fast: {hostDir: /mnt/fast}"),
		"every global key": everything(),
		"every class key":  everyClassKey,
		"cleaning Jobs":    {classMapKey: "fast: {hostDir: /mnt/fast}", useJobsKey: "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, config)
		})
	}
}

// FuzzDecode: for any ConfigMap the result is a configuration, which can be rendered and read
// again, or Errors that name keys of the ConfigMap.
func FuzzDecode(f *testing.F) {
	f.Add(classMapKey, "fast: {hostDir: /mnt/fast}", "- zone")
	f.Add("maxCleaning", "a: {hostDir: /a, blockCleanerCommand: [shred, 3], namePattern: 'a\\*,[b]', selector: [{}]}", "7")
	f.Add("jobTolerations", "a: {hostDir: /a, allowDirectories: on, directoryPattern: v*}\nb: {hostDir: /a/b}", "- {key: a, operator: Exists, tolerationSeconds: 3}")
	f.Add("probeTimeout", "a: &a {hostDir: /a}\nb: {<<: *a, hostDir: /b}", "1m")
	f.Add("labelsForPV", "1: {hostDir: /a, fsCleanerCommand: ['/a', !!binary /w==]}", "{a: ~, 2: b}")
	f.Add("minResyncPeriod", "? [a]\n: b", "--- 1s\n... \n")
	f.Add(taintKeyKey, "a: {hostDir: .nan, cleanTimeout: 9e99}", "a/b")
	f.Fuzz(func(t *testing.T, key, classes, value string) {
		data := map[string]string{key: value, classMapKey: classes}
		config, err := Decode(data)
		if err == nil {
			config.Warnings()
			roundTrip(t, config)
			return
		}
		var errs Errors
		if config != nil || !errors.As(err, &errs) || len(errs) == 0 {
			t.Fatalf("got %+v and %v, want Errors alone", config, err)
		}
		if len(validation.IsConfigMapKey(key)) > 0 {
			return // the API server would reject it
		}
		for _, err := range errs {
			ofData := strings.HasPrefix(err.Field, key) || strings.HasPrefix(err.Field, classMapKey)
			if !ofData && err.Field != taintKeyKey || err.Detail == "" && err.Type != field.ErrorTypeNotSupported {
				t.Errorf("error %v names no key of the ConfigMap", err)
			}
		}
	})
}
