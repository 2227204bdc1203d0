// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Parse reads the data of a ConfigMap. It returns either a valid configuration, which
// the caller owns, or Errors, sorted by the ConfigMap's keys and then by position. data is not
// changed. Safe for concurrent use.
func Parse(data map[string]string) (*Config, error) {
	var errs Errors
	config := defaults()
	names := namesOf(globalKeys)
	for _, name := range slices.Sorted(maps.Keys(data)) {
		at := slices.Index(names, name)
		if at < 0 {
			node{path: field.NewPath(name), errs: &errs}.failf("%s", unknown(name, names))
			continue
		}
		if n, ok := parseYAML(name, data[name], &errs); ok && !isEmpty(n.value) {
			globalKeys[at].read(n, config)
		}
	}
	checkWhole(config, &errs)
	if len(errs) > 0 {
		return nil, errs
	}
	return config, nil
}

// checkWhole reports missing keys. A key that could not be read is reported already, and is not
// reported as missing too.
func checkWhole(config *Config, errs *Errors) {
	if len(config.Classes) == 0 && !errs.at(classMapKey) {
		node{path: field.NewPath(classMapKey), errs: errs}.failf(
			"must have at least one storage class: without one, the provisioner finds no disk")
	}
	if config.RemoveNodeNotReadyTaint && config.NodeNotReadyTaintKey == "" && !errs.at(taintKeyKey) {
		node{path: field.NewPath(taintKeyKey), errs: errs}.failf(
			"must be the key of the startup taint, because %s is on", removeTaintKey)
	}
}
