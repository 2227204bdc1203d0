// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"time"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
)

// The events that a browser gets.
const (
	eventState   = "state"
	eventNodes   = "nodes"
	eventSummary = "summary"
	eventWaiting = "waiting"
)

// reading is the error of a state until the snapshot is complete.
const reading = "reading the cluster"

// state is the state of the connection to the cluster.
type state struct {
	Cluster   string `json:"cluster"`
	Server    string `json:"server"`
	Connected bool   `json:"connected"`
	Error     string `json:"error"`
	Since     string `json:"since"` // of the error
	Time      string `json:"time"`  // when what is shown was last current
	// Unseen is what could not be read.
	Unseen []string `json:"unseen"`
	Nodes  int      `json:"nodes"`
	From   string   `json:"from"`
}

// state returns the state of the source.
func (s *Server) state() state {
	connection := s.Source.Connection()
	now := state{
		Cluster: s.Cluster, From: s.From, Connected: connection.Err == nil && s.last != nil, Unseen: orEmpty(s.unseen), Nodes: s.nodes,
		Time: timeOf(connection.LastSeen),
	}
	if s.last != nil && s.last.Server != nil {
		now.Server = s.last.Server.GitVersion
	}
	switch {
	case connection.Err != nil:
		now.Error, now.Since = oneLine(connection.Err), timeOf(connection.Since)
	case s.last == nil:
		now.Error = reading
	}
	return now
}

// timeOf returns a time as RFC 3339 has it; empty for none.
func timeOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// node is a node and its disks.
type node struct {
	Name  string                    `json:"name"`
	Zone  string                    `json:"zone"`
	State v1alpha1.NodeState        `json:"state"`
	Disks []v1alpha1.StorageMapDisk `json:"disks"`
}

// nodesOf returns the nodes with their disks, by name.
func nodesOf(s *Storage) map[string]*node {
	all := make(map[string]*node, len(s.Nodes))
	for _, place := range s.Nodes {
		all[place.Node] = &node{Name: place.Node, Zone: place.Zone, State: place.NodeState, Disks: []v1alpha1.StorageMapDisk{}}
	}
	for _, disk := range s.Disks {
		if n := all[disk.Node]; n != nil {
			n.Disks = append(n.Disks, disk)
		}
	}
	return all
}

// summaryOf returns the sums, without nil lists, which browsers would have to handle.
func summaryOf(s *Storage) Summary {
	sums := s.Summary
	sums.Classes, sums.NetworkVolumes, sums.Capacities = orEmpty(sums.Classes), orEmpty(sums.NetworkVolumes), orEmpty(sums.Capacities)
	return sums
}

// pods are the pods that wait.
type pods struct {
	Pods []pod `json:"pods"`
	// More is the number of pods that are not listed.
	More int `json:"more"`
	// Pending: the sentences are of an earlier state of the cluster, or missing.
	Pending bool `json:"pending"`
}

// pod is a pod that waits, and why.
type pod struct {
	v1alpha1.WaitingPod
	Sentence string               `json:"sentence"`
	State    v1alpha1.PodState    `json:"state"`
	Changes  []v1alpha1.PodChange `json:"changes"`
	Links    []string             `json:"links"`
}

// podOf returns a pod with what a report says; report may be nil.
func podOf(w v1alpha1.WaitingPod, report *v1alpha1.PodReport) pod {
	p := pod{WaitingPod: w, Changes: []v1alpha1.PodChange{}, Links: []string{}}
	if report != nil {
		p.Sentence, p.State = report.Sentence, report.State
		p.Changes = orEmpty(report.Changes[:min(len(report.Changes), maxChanges)])
		p.Links = linksOf(report)
	}
	return p
}

// linksOf returns the pages about the reasons of a report, each once.
func linksOf(report *v1alpha1.PodReport) []string {
	all, known := []string{}, map[string]bool{"": true}
	add := func(reasons []v1alpha1.PodReason) {
		for _, reason := range reasons {
			if !known[reason.Link] {
				known[reason.Link] = true
				all = append(all, reason.Link)
			}
		}
	}
	add(report.Everywhere)
	for _, group := range report.Groups {
		add(group.Reasons)
	}
	return all
}

// orEmpty returns a list that is not nil.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
