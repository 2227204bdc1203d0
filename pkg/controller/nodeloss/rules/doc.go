// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loss decides what becomes of a local volume that nobody can reach any more:
// its node is gone, or its disk is. Decide gets all that is known about one volume and
// answers with the one thing to write next; package nodeloss gathers, and writes.
//
// What must never be, and is held by the model in the tests: a claim released that is
// to be kept, or that nobody makes again, or before its delay is over; a volume deleted
// while its claim is there; a volume let go without a tombstone.
package rules
