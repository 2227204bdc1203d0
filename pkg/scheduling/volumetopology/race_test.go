// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package volumetopology

const raceDetector = true
