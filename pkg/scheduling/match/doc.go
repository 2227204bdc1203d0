// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package match decides which PersistentVolume serves which claim. It knows
// claims and volumes only: which nodes a volume can be reached from, which
// volumes are reserved and how a decision is written to the API is known
// elsewhere.
//
// The rules, in the order in which they are asked:
//
//  1. A volume whose claimRef names the claim comes before all others
//     (Names). It must be big enough, of the claim's volume mode and
//     VolumeAttributesClass, offer the claim's access modes and not be being
//     deleted (Request.Accepts). Phase, class and selector are not asked.
//  2. Otherwise the volume must also be free (Volume.Free) and of the claim's
//     class.
//  3. The claim's label selector must match the volume's labels
//     (Request.Admits).
//  4. The volume's node affinity must admit the node; a Pool holds volumes
//     for which this has the same answer.
//  5. Of the rest the smallest is taken, then the one with the fewest access
//     modes that were not asked for, then the first by name (Before).
//  6. Several claims of a pod are served together (Solver), so that no claim
//     takes what only another one could have used.
//
// Everything here is a pure function of its arguments. Nothing that is passed
// in is changed, and equal arguments give equal answers, whatever the order
// in which volumes were seen.
package match
