// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Status is the state of an installation of Stowage.
type Status struct {
	metav1.TypeMeta `json:",inline"`

	// healthy: Stowage is installed, and no check found a problem. Warnings and checks that are
	// unknown do not change it.
	Healthy bool `json:"healthy"`
	// server is the version of the API server; empty if it is unknown.
	Server string `json:"server,omitempty"`
	// components are the parts of Stowage that are installed.
	Components []Component `json:"components"`
	// checks are what was checked, ordered by component.
	Checks []Check `json:"checks"`
	// unseen are the kinds of objects that could not be read, or only of one namespace.
	Unseen []string `json:"unseen,omitempty"`
}

// Component is a workload of a part.
type Component struct {
	// part is scheduler, extender, provisioner, controller or csi.
	Part string `json:"part"`
	// kind is Deployment, DaemonSet, or Pod for pods that kubelet runs from files.
	Kind string `json:"kind"`
	// namespace and name are those of the workload.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// image is that of its container.
	Image string `json:"image"`
	// version is the tag of the image; empty if it has none.
	Version string `json:"version,omitempty"`
	// wanted is the number of pods that there should be, ready that of those that work. Of an
	// extender or a controller with leader election, replicas on standby can be not ready.
	Wanted int32 `json:"wanted"`
	Ready  int32 `json:"ready"`
	// leader is the pod that works; empty without leader election, or if it is unknown.
	Leader string `json:"leader,omitempty"`
}

// CheckState is the result of a check.
type CheckState string

// The results.
const (
	// CheckOK: nothing is wrong.
	CheckOK CheckState = "OK"
	// CheckWarning: the installation works, and something needs attention.
	CheckWarning CheckState = "Warning"
	// CheckProblem: the installation does not work as it should.
	CheckProblem CheckState = "Problem"
	// CheckUnknown: what the check needs could not be read.
	CheckUnknown CheckState = "Unknown"
)

// Check is the result of a check.
type Check struct {
	// part is what was checked: scheduler, extender, provisioner, controller, csi, or cluster.
	Part string `json:"part"`
	// name is the kind of the check.
	Name  string     `json:"name"`
	State CheckState `json:"state"`
	// message is what was found.
	Message string `json:"message"`
	// next is what to do; empty if nothing.
	Next string `json:"next,omitempty"`
	// link is the page about it; empty if there is nothing to do.
	Link string `json:"link,omitempty"`
}
