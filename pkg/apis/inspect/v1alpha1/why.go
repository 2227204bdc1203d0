// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// StorageReport is the state of a claim, a volume, a disk or a node, and what it waits for: kubectl stowage why
// pvc, pv, disk and node.
type StorageReport struct {
	metav1.TypeMeta `json:",inline"`

	// time is when the cluster was read; absent if the files of --from do not say.
	Time *metav1.Time `json:"time,omitempty"`
	// subject is what the report is about.
	Subject Reference `json:"subject"`
	// state is the answer in a word: the phase of a claim or volume, the state of a disk's entry, or Ready, NotReady or
	// Missing of a node.
	State string `json:"state"`
	// since is when it got the state, or waits; absent if unknown.
	Since *metav1.Time `json:"since,omitempty"`
	// sentences are the answer, the first in one sentence.
	Sentences []string `json:"sentences"`
	// waitsFor is what has to happen next; absent if nothing has to.
	WaitsFor *Wait `json:"waitsFor,omitempty"`
	// next are what the reader can do, the first first.
	Next []string `json:"next,omitempty"`
	// links are the sections of the documentation about it.
	Links []string `json:"links,omitempty"`
	// related are the objects that the answer is made of.
	Related []Related `json:"related,omitempty"`
	// events are the last events of the subject and of related objects, the newest first.
	Events []EventLine `json:"events,omitempty"`
	// unseen is what could not be read.
	Unseen []string `json:"unseen,omitempty"`
}

// Reference names an object. The name of a disk is NODE/CLASS/NAME.
type Reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// WaitKind is what something waits for.
type WaitKind string

// What claims, volumes, disks and nodes wait for.
const (
	WaitConsumer      WaitKind = "Consumer"      // a pod that uses the claim
	WaitScheduler     WaitKind = "Scheduler"     // a node for the pod
	WaitProvisioner   WaitKind = "Provisioner"   // creates, cleans or deletes the volume
	WaitPVController  WaitKind = "PVController"  // of kube-controller-manager, or stowage-controller instead
	WaitKubelet       WaitKind = "Kubelet"       // mounts the volume, or releases it
	WaitCleaning      WaitKind = "Cleaning"      // the removal of data
	WaitController    WaitKind = "Controller"    // stowage-controller
	WaitDiskUser      WaitKind = "DiskUser"      // something else uses the disk
	WaitPods          WaitKind = "Pods"          // pods have to end
	WaitNode          WaitKind = "Node"          // the node has to be back, or its loss to be handled
	WaitAdministrator WaitKind = "Administrator" // nothing happens without one
)

// Wait is what has to happen next.
type Wait struct {
	For WaitKind `json:"for"`
	// text is all of it in words.
	Text string `json:"text"`
	// name is who it is: a pod, a provisioner, a node.
	Name string `json:"name,omitempty"`
	// reason is that of the report, the condition or the event.
	Reason string `json:"reason,omitempty"`
	// step and steps are the progress of a released volume of the local provisioner: 1 the disk is verified to be
	// unused, 2 the PersistentVolume is deleted, 3 the disk is cleaned, 4 the result is recorded and the disk published.
	Step  int `json:"step,omitempty"`
	Steps int `json:"steps,omitempty"`
	// doneBytes of totalBytes are cleaned, or read.
	DoneBytes  int64 `json:"doneBytes,omitempty"`
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// until is when it is tried again, or ends; absent if unknown.
	Until *metav1.Time `json:"until,omitempty"`
}

// Related is an object that the answer is made of.
type Related struct {
	Reference `json:",inline"`
	// relation is what it is to the subject.
	Relation string `json:"relation"`
	// state is its state.
	State string `json:"state,omitempty"`
}

// EventLine is an event.
type EventLine struct {
	// object is what the event is about.
	Object Reference `json:"object"`
	// last is when it was last observed, count how often.
	Last  metav1.Time `json:"last"`
	Count int32       `json:"count,omitempty"`
	// type is Normal or Warning.
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// from is the component that wrote it.
	From string `json:"from,omitempty"`
	// link is the section of the documentation about the reason; absent if there is none.
	Link string `json:"link,omitempty"`
}
