// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package match decides which PersistentVolume serves which claim. It knows claims and
// volumes only; other packages know which nodes reach a volume, which volumes are
// reserved, and how a decision is written to the API.
//
// The rules, in the order of evaluation:
//
//  1. A volume whose claimRef names the claim is preferred to all others
//     (RefersTo). It must be large enough, have the claim's volume mode and
//     VolumeAttributesClass, offer the claim's access modes and not be in
//     deletion (Request.FitsSpec). Phase, class and selector are ignored.
//  2. Otherwise the volume must also be free (Volume.Free) and of the claim's
//     class.
//  3. The claim's label selector must match the volume's labels
//     (Request.Matches).
//  4. The volume's node affinity must admit the node; all volumes of a Pool are
//     equal in this.
//  5. Of the remaining volumes the smallest is taken, then the one with the
//     fewest access modes that were not requested, then the first by name (Less).
//  6. Several claims of a pod are served together (Solver), so that no claim
//     takes the only volume that another one could use.
//
// Everything here is a pure function of its arguments. Arguments are not changed, and
// equal arguments give equal results, whatever the order in which volumes were observed.
package match
