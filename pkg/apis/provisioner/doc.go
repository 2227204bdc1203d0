// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioner is the local provisioner's configuration: the data of a
// ConfigMap, one key per setting, each value YAML. The keys of the reference
// provisioner (sig-storage-local-static-provisioner) are unchanged, so that a
// migration keeps the ConfigMap; docs/provisioner-configuration.md has every key.
//
// Reading is strict. An unknown key at any depth is an error that names it, and
// all errors of a configuration are reported at once. The package does not read
// the node or the cluster.
package provisioner
