// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench measures schedulers on whole clusters: real etcd,
// kube-apiserver and PV controller, and nodes and volumes that are objects
// only.
//
// Run does one run of a Workload by one arm, on its own cluster: it makes
// the nodes, volumes and claims first, starts the PV controller and the
// scheduler, lets one pod be scheduled to warm them up, and only then puts the
// load on and measures. All arms run the same scheduler binary; only its
// profile differs. In the arm Ceiling a bare client of this package does
// the writes of scheduling instead, with places chosen beforehand.
//
//	workload.go   the workloads, and who runs them
//	run.go        one run from start to end
//	result.go     what it measures
//	setup.go      the cluster of a run
//	storage.go    its nodes, volumes and claims
//	scheduler.go  the arms' profiles
//	load.go       what is done while it is measured
//	rolling.go    the same for StatefulSets
//	ceiling.go    the bare client
//	filter.go     the extender's calls to filter
//	provision.go  a provisioner that answers at once
//	recorder.go   what a client sees of the pods
//	profile.go    profile and log of the scheduler
//	usage.go      CPU time, memory and API requests
package bench
