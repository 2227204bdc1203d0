// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules decides what to do about a local volume that is lost with its node or its
// disk. Decide takes the facts of one volume and returns the next action; package nodeloss
// reads the facts and takes the action.
//
// A model in the tests checks that no decision releases a claim that its terms keep, that
// nothing recreates, or whose delay is not over; deletes a volume whose claim exists; or
// removes a finalizer without a tombstone.
package rules
