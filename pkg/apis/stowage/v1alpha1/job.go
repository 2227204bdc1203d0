// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CleaningRequest requests a Job that cleans the disk of an entry. It identifies the attempt and
// the disk. What the Job may access, and how it cleans, is taken from the volume and from the
// provisioner's configuration, never from the request.
type CleaningRequest struct {
	// attempt identifies the attempt.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Attempt string `json:"attempt"`
	// volumeUID is the UID of the PersistentVolume, which is being deleted.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	VolumeUID string `json:"volumeUID"`
	// identity is the identity of the disk that the Job must find.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Identity string `json:"identity"`
	// step is the progress of an earlier attempt; the method defines its meaning.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Step string `json:"step,omitempty"`
}

// CleaningJobState is the state of a request for a Job.
// +kubebuilder:validation:Enum=Waiting;Running;Succeeded;Failed;Refused
type CleaningJobState string

// The states. The last three are final: another attempt needs another request.
const (
	CleaningJobWaiting   CleaningJobState = "Waiting"   // the Job does not exist yet; see the reason
	CleaningJobRunning   CleaningJobState = "Running"   // the Job exists, and may not have started
	CleaningJobSucceeded CleaningJobState = "Succeeded" // the Job reports that the disk is clean
	CleaningJobFailed    CleaningJobState = "Failed"    // the Job failed, or was deleted
	CleaningJobRefused   CleaningJobState = "Refused"   // no Job is created
)

// CleaningJob is the controller's answer to a CleaningRequest.
type CleaningJob struct {
	// path is the path of the requesting entry.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Path string `json:"path"`
	// attempt is that of the request.
	// +kubebuilder:validation:MaxLength=16
	Attempt string `json:"attempt"`
	// state is the state of the request.
	State CleaningJobState `json:"state"`
	// job is the name of the Job.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// reason is a machine-readable reason for the state.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message explains the reason, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// step is the progress that the Job reported.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Step string `json:"step,omitempty"`
	// since is when state or reason last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// Final reports whether the state no longer changes.
func (j *CleaningJob) Final() bool {
	return j.State == CleaningJobSucceeded || j.State == CleaningJobFailed || j.State == CleaningJobRefused
}

// maxStep is how long a step may be, in characters.
const maxStep = 1024

// FitJob returns an answer that the schema accepts, as Fit does for entries.
func FitJob(job CleaningJob) CleaningJob {
	job.Reason = cut(job.Reason, maxReason)
	job.Message = cut(job.Message, maxMessage)
	job.Step = FitStep(job.Step)
	return job
}

// FitStep returns a step that the schema accepts: a long one becomes empty, because a part of it
// would mean something else.
func FitStep(step string) string {
	if cut(step, maxStep) != step {
		return ""
	}
	return step
}
