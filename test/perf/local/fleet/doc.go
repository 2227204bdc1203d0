// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet measures what the provisioners of many nodes cost the API server: an etcd, a
// kube-apiserver, a volume for each disk, and the watches that the provisioners would have,
// each on its own connection. There are no nodes and no provisioners.
package fleet
