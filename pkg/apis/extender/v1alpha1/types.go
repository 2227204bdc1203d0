// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"stowage.dev/stowage/pkg/apis/component"
	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

// SchemeGroupVersion is the group and version of the configuration file.
var SchemeGroupVersion = schema.GroupVersion{Group: "extender.config.stowage.dev", Version: "v1alpha1"}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExtenderConfiguration is how stowage-extender runs.
type ExtenderConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// mode is what the extender does for the scheduler.
	// Full: VolumeBinding is disabled in the scheduler's profile, and the
	// extender chooses and binds volumes: filter, prioritize, preempt, bind.
	// Advisory: VolumeBinding stays, and the extender rejects and ranks nodes:
	// filter, prioritize.
	// Default: Full
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// schedulerNames are the profiles of kube-scheduler that call the extender. A
	// pod of another scheduler is not bound. Empty: pods of any scheduler are.
	// Only mode Full binds.
	// +listType=set
	// +optional
	SchedulerNames []string `json:"schedulerNames,omitempty"`

	// serving is the address of the extender and its clients.
	// +optional
	Serving Serving `json:"serving,omitempty"`

	// healthAddress is the host:port of /healthz, /livez, /readyz and /metrics,
	// in plain HTTP; "" for none.
	// Default: ":8080"
	// +optional
	HealthAddress *string `json:"healthAddress,omitempty"`

	// timeouts bound calls and holds.
	// +optional
	Timeouts Timeouts `json:"timeouts,omitempty"`

	// bindingMode is who completes the binding of a claim to a volume, as in
	// VolumeTopologyArgs. Only mode Full binds.
	// Default: Direct
	// +optional
	BindingMode configv1.BindingMode `json:"bindingMode,omitempty"`

	// scoring configures how nodes that can serve a pod's claims are ranked, as in
	// VolumeTopologyArgs.
	// +optional
	Scoring configv1.VolumeScoring `json:"scoring,omitempty"`

	// clientConnection configures the client of the API server.
	// +optional
	ClientConnection component.ClientConnection `json:"clientConnection,omitempty"`

	// leaderElection configures which of several replicas answers.
	// +optional
	LeaderElection component.LeaderElection `json:"leaderElection,omitempty"`
}

// Mode is what the extender does for the scheduler.
type Mode string

const (
	// ModeFull: the extender chooses and binds volumes.
	ModeFull Mode = "Full"
	// ModeAdvisory: the extender rejects and ranks nodes.
	ModeAdvisory Mode = "Advisory"
)

// Serving is the address of the extender and its clients.
type Serving struct {
	// address is the host:port to listen on.
	// Default: ":8443"
	// +optional
	Address string `json:"address,omitempty"`

	// certFile and keyFile are the extender's certificate and key, clientCAFile
	// the authorities whose client certificates are accepted. PEM, reloaded
	// when they change. All three are required unless insecure is true.
	// +optional
	CertFile string `json:"certFile,omitempty"`
	// +optional
	KeyFile string `json:"keyFile,omitempty"`
	// +optional
	ClientCAFile string `json:"clientCAFile,omitempty"`

	// clientNames are the common names of client certificates that may call.
	// A client that may call can have pods bound, so mode Full requires names unless
	// insecure is true. Empty in mode Advisory: any certificate that
	// clientCAFile has signed.
	// +listType=set
	// +optional
	ClientNames []string `json:"clientNames,omitempty"`

	// insecure serves plain HTTP to all processes on the same machine. address must then
	// be a loopback address.
	// Default: false
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// maxBodyBytes bounds a request's body, 65536 to 1073741824. The default
	// is ample for 5,000 node names; with nodeCacheCapable: false whole Node
	// objects are sent, about 10 KiB each.
	// Default: 8388608
	// +optional
	MaxBodyBytes *int64 `json:"maxBodyBytes,omitempty"`
}

// Timeouts bound calls and holds.
type Timeouts struct {
	// verb is how long any call may take, 100ms to 60s. It must be shorter than
	// the httpTimeout of the scheduler's configuration, or the scheduler gives
	// up without an answer.
	// Default: 8s
	// +optional
	Verb metav1.Duration `json:"verb,omitempty"`

	// hold is how long a pod is kept to its node while its volumes are provisioned,
	// 1s to 1h. In mode Advisory it is how long capacity is held, on the
	// nodes that filter accepted, for a pod whose node is not known.
	// Default: 10m in mode Full, 30s in mode Advisory
	// +optional
	Hold metav1.Duration `json:"hold,omitempty"`
}
