// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binder executes binding plans: it writes what a plan.Plan requires, in an order
// that leaves every object usable wherever it stops, and waits for other writers
// (provisioners, the PV controller) on informer events.
//
// Order of a plan, both modes:
//
//  1. claimRef on every volume, in parallel, each on the resourceVersion that
//     was reserved.
//  2. selected-node on every claim to be provisioned. After step 1, because a
//     provisioner cannot be stopped: losing a static volume to another claim
//     must not leave a provisioned one behind.
//  3. Wait until every claim has its volume.
//  4. Direct: volumeName and bind-completed, one write per claim, which cannot be
//     undone; then the claim's status. Not before every claim of the pod has
//     its volume, so that a failure of a provisioner can still be undone.
//     PVController: wait until the PV controller has bound the claims.
//
// # Beside the PV controller
//
// Every write is a compare-and-swap. After a conflict the object is read: as wanted already
// is success, another writer's decision is failure, and other changes lead to another write
// on the new version, a few times.
//
// A writer that binds a claim to a volume whose claimRef it did not write
// first sets the volume's phase to Bound. The PV controller does so, and so
// does Direct when it finds the claimRef in place (written for another pod
// with the same claim, or by an earlier attempt). That write changes the
// resourceVersion, so the undo of the claimRef's writer conflicts. Hence undo is
// safe on the version that our own write returned, unless that was Bound already:
// then nothing would protect the claim. A volume whose claimRef we wrote gets phase
// Bound only after its claim, so that undo stays possible until then.
//
// The PV controller marks a claim Lost if the claim is bound to a volume that
// its cache lacks, or holds with another claimRef; claims and volumes are in
// separate queues. It knows a volume that is Available. It knows a provisioned
// volume once the phase is no longer Pending, so Direct waits for that. It knows a
// volume that its owner pre-bound by name as the claim's once it has set phase Bound;
// Direct waits for that too, for a limited time, so that it works without a PV
// controller. It may still hold for another claim a volume whose claimRef was undone,
// which an annotation records until the next binding is complete: there, too,
// Direct waits for Bound. A binder that finds the next claimRef in place also waits,
// and does not set the phase meanwhile. If a claim is marked Lost nevertheless,
// writing its status repairs it.
//
// A PV controller that has set a volume Bound writes the claim next. Direct leaves that to it
// for a second, since both would write the same version, and then writes what is missing.
// No pod waits for the phase of a volume whose claim Direct has bound; it is left to the PV
// controller for ten seconds. A PV controller that has not set the phase of a provisioned
// volume for seconds is limited by its client: Direct sets the phase for it, and leaves the
// claim to it without a time limit.
//
// # Stopping
//
// When the context ends or a step fails, requests in flight have a few seconds to return,
// since a write of unknown outcome cannot be undone. Writes before step 4 are then undone
// where that is safe. A claim in step 4 is completed. An incomplete binding is completed by
// the PV controller, or by the pod's next scheduling cycle.
package binder
