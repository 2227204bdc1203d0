// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
)

// roundTrip renders a configuration and parses that.
func roundTrip(t *testing.T, config *Config) {
	t.Helper()
	data, err := config.Data()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(data)
	if err != nil {
		t.Fatalf("the rendered configuration is rejected: %v\n%v", err, data)
	}
	if diff := cmp.Diff(config, again); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	everyClassKey := everything()
	everyClassKey[classMapKey] = `
fast: {hostDir: /mnt/fast, mountDir: /local-ssds, accessMode: ReadOnlyMany, fsType: xfs, namePattern: "a*,[b]?",
  blockCleanerCommand: [/bin/sh, -c, "one\n  two: 'yes'\n", "", "1"], fsCleanerCommand: [/opt/clean, "no"], cleanTimeout: 90m,
  existingData: Clean, allowDirectories: true, directoryPattern: "*", volumeName: Reference, selector: []}
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
			config, err := Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, config)
		})
	}
}

// FuzzParse: for any ConfigMap the result is a configuration, which can be rendered and read
// again, or Errors that name keys of the ConfigMap.
func FuzzParse(f *testing.F) {
	f.Add(classMapKey, "fast: {hostDir: /mnt/fast}", "- zone")
	f.Add("maxCleaning", "a: {hostDir: /a, blockCleanerCommand: [shred, 3], namePattern: 'a\\*,[b]', selector: [{}]}", "7")
	f.Add("jobTolerations", "a: {hostDir: /a, allowDirectories: on, directoryPattern: v*}\nb: {hostDir: /a/b}", "- {key: a, operator: Exists, tolerationSeconds: 3}")
	f.Add("probeTimeout", "a: &a {hostDir: /a}\nb: {<<: *a, hostDir: /b}", "1m")
	f.Add("labelsForPV", "1: {hostDir: /a, fsCleanerCommand: ['/a', !!binary /w==]}", "{a: ~, 2: b}")
	f.Add("minResyncPeriod", "? [a]\n: b", "--- 1s\n... \n")
	f.Add(taintKeyKey, "a: {hostDir: .nan, cleanTimeout: 9e99}", "a/b")
	f.Fuzz(func(t *testing.T, key, classes, value string) {
		data := map[string]string{key: value, classMapKey: classes}
		config, err := Parse(data)
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
		for _, finding := range errs {
			ofData := strings.HasPrefix(finding.Field, key) || strings.HasPrefix(finding.Field, classMapKey)
			if !ofData && finding.Field != taintKeyKey || finding.Message == "" {
				t.Errorf("finding %+v names no key of the ConfigMap", finding)
			}
		}
	})
}
