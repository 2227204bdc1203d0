// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binder carries out binding plans: it writes what a plan.Plan says,
// in an order that leaves every object usable whenever it stops, and waits for
// others (provisioners, the PV controller) on informer events.
//
// Order of a plan, both modes:
//
//  1. claimRef on every volume, in parallel, each on the resourceVersion that
//     was reserved.
//  2. selected-node on every claim to be provisioned. After step 1, because a
//     provisioner cannot be stopped: a static volume that somebody else took
//     must not leave a provisioned one behind.
//  3. Wait until every claim has its volume.
//  4. Direct: volumeName and bind-completed, one write per claim, the point of
//     no return; then the claim's status. Not before every claim of the pod has
//     its volume, so that a refusal by a provisioner can still be undone.
//     PVController: wait until the PV controller has done it.
//
// # Beside the PV controller
//
// Every write is a compare-and-swap. A conflict is read: as wanted already is
// success, taken by somebody else is failure, changed in other respects is
// written again on the new version, a few times.
//
// Whoever writes a claim onto a volume whose claimRef it did not write itself
// first sets the volume's phase to Bound. The PV controller does so, and so
// does Direct when it finds the claimRef in place (the binder of another pod
// with the same claim wrote it, or an earlier life of this one). That write
// takes the resourceVersion away from whoever wrote the claimRef, so its undo
// conflicts. Hence undo is safe on the version that our own write returned,
// unless that was Bound already: then nothing would protect the claim. A volume
// whose claimRef we did write gets phase Bound only after its claim, so that
// undo stays possible until then.
//
// The PV controller marks a claim Lost if the claim is bound to a volume that
// its own cache lacks, or holds with another claimRef; claims and volumes reach
// it by separate queues. A volume that it made Available it does know. One that
// has just been provisioned it knows once the phase is no longer Pending, so
// Direct waits for that. One that its owner pre-bound by name it knows as the
// claim's once it has set the phase to Bound; Direct waits for that too, but
// not for ever, so that it works without a PV controller. A volume that the
// claimRef of another claim was taken back from, which an annotation says until
// the next binding is complete, it may hold for that claim still: there, too,
// Direct waits for Bound. A binder that finds the next claimRef in place waits
// likewise, and does not set the phase meanwhile. Should a claim be marked Lost
// all the same, writing its status cures it.
//
// A PV controller that has set a volume Bound writes the claim next. Direct
// leaves that to it for a second, since both would write the same version, and
// writes only what is left then. The phase of a volume whose claim Direct has bound
// keeps no pod waiting and is left to the PV controller for ten seconds. A PV
// controller that has not set the phase of a provisioned volume for seconds has more
// to write than its client's limit allows: Direct sets the phase for it, and leaves
// the claim to it without limit.
//
// # Stopping
//
// When the context ends or anything fails, requests in flight are given a few
// seconds to return, since a write of unknown outcome cannot be undone. What
// was written before step 4 is then taken back where that is safe. A claim
// whose step 4 has begun is only carried forward. What is left half-made is
// completed by the PV controller, or by the pod's next scheduling cycle.
package binder
