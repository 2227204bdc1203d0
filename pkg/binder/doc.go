// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binder carries out binding plans against the API server.
package binder
