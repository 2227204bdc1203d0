// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CleaningRequest asks the controller for a Job that cleans the disk of an entry. It
// says which attempt at which disk. What the Job may touch and how it cleans is never
// taken from here, but from the volume and from the agents' configuration.
type CleaningRequest struct {
	// attempt tells this attempt from all others.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Attempt string `json:"attempt"`
	// volumeUID is the UID of the PersistentVolume, which is being deleted.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	VolumeUID string `json:"volumeUID"`
	// identity is the disk that the Job has to find.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Identity string `json:"identity"`
	// step is where an earlier attempt got to; its meaning is the method's.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Step string `json:"step,omitempty"`
}

// CleaningJobState is how a request for a Job stands.
// +kubebuilder:validation:Enum=Waiting;Running;Succeeded;Failed;Refused
type CleaningJobState string

// The states. The last three are final: another attempt needs another request.
const (
	CleaningJobWaiting   CleaningJobState = "Waiting"   // there is no Job yet, for the reason given
	CleaningJobRunning   CleaningJobState = "Running"   // there is a Job, which may not have begun yet
	CleaningJobSucceeded CleaningJobState = "Succeeded" // the Job says that the disk is clean
	CleaningJobFailed    CleaningJobState = "Failed"    // the Job failed, or is gone
	CleaningJobRefused   CleaningJobState = "Refused"   // there will be no Job
)

// CleaningJob is the controller's answer to a CleaningRequest.
type CleaningJob struct {
	// path is that of the entry which asks.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Path string `json:"path"`
	// attempt is that of the request.
	// +kubebuilder:validation:MaxLength=16
	Attempt string `json:"attempt"`
	// state is how the request stands.
	State CleaningJobState `json:"state"`
	// job is the name of the Job.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// reason is why it does not stand as one would wish, in a word that stays the
	// same from release to release.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message is why it does not stand as one would wish, and what to do about it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// step is how far the Job came, if it told.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Step string `json:"step,omitempty"`
	// since is when state or reason last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// Final says whether nothing more comes of the request.
func (j *CleaningJob) Final() bool {
	return j.State == CleaningJobSucceeded || j.State == CleaningJobFailed || j.State == CleaningJobRefused
}

// maxStep is how long a step may be, in characters.
const maxStep = 1024

// FitJob makes an answer one that the schema accepts, as Fit does for entries.
func FitJob(job CleaningJob) CleaningJob {
	job.Reason = cut(job.Reason, maxReason)
	job.Message = cut(job.Message, maxMessage)
	job.Step = FitStep(job.Step)
	return job
}

// FitStep is a step that the schema accepts: one that is too long is none, for half of
// it would mean something else.
func FitStep(step string) string {
	if cut(step, maxStep) != step {
		return ""
	}
	return step
}
