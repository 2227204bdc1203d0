// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install decides whether an installation of Stowage works: which parts run where, in which version,
// with which leader, configuration, rights and admission policies, and what of it is wrong. It compares a
// snapshot with the manifests that are built in.
package install

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// partCluster is the part of checks that are about no component.
const partCluster = "cluster"

// The names of the checks.
const (
	checkWorkload = "workload"
	checkReplicas = "replicas"
	checkVersion  = "version"
	checkLeader   = "leader"
	checkConfig   = "configuration"
	checkRights   = "rights"
	checkPolicies = "policies"
	checkKinds    = "kinds"
	checkNodes    = "nodes"
	checkClasses  = "classes"
	checkDisks    = "disks"
	checkPav      = "pavprovisioners"
	checkPods     = "pods"
)

// few is how many names a message has at most.
const few = 3

// assessment is a snapshot, what was found in it, and the checks so far.
type assessment struct {
	s *snapshot.Snapshot
	// now is the time by the clock of the cluster; zero if there is no sign of it.
	now time.Time
	// workloads are those of Stowage, in the order of parts.
	workloads []*workload
	// configs are the configurations of the parts.
	configs configs
	roles   roles
	// reviewed are the rights of users that the API server has reviewed.
	reviewed map[string]Rules
	checks   []inspect.Check
}

func newAssessment(s *snapshot.Snapshot) *assessment {
	a := &assessment{s: s, now: clock(s), workloads: find(s)}
	a.configs = a.readConfigs()
	a.roles = newRoles(snapshot.Of[*rbacv1.ClusterRole](s), snapshot.Of[*rbacv1.Role](s))
	return a
}

// Assess checks the installation in a snapshot that has at least what Queries and Configs name. reviewed are the rights
// that users of Reviews have, by user, as the API server says. Of the other users roles and bindings are compared.
// Nothing is changed.
func Assess(s *snapshot.Snapshot, reviewed map[string]Rules) *inspect.Status {
	a := newAssessment(s)
	a.reviewed = reviewed
	for i := range parts {
		p := &parts[i]
		own := a.of(p)
		a.installed(p, own)
		for _, w := range own {
			a.replicas(w)
			a.version(w)
			a.leader(w)
			a.config(w)
		}
		if len(own) == 0 {
			continue
		}
		if p.name == provisionerPart {
			a.classes()
			a.nodes(own)
		}
		a.rights(p, own)
		a.policies(p)
		a.kinds(p)
	}
	a.skew()
	a.pods()
	a.disks()
	a.pavProvisioners()
	return a.status()
}

// status makes the answer of the checks.
func (a *assessment) status() *inspect.Status {
	status := &inspect.Status{TypeMeta: inspect.Type("Status"), Components: []inspect.Component{}, Checks: a.checks}
	if a.s.Server != nil {
		status.Server = a.s.Server.GitVersion
	}
	for _, w := range a.workloads {
		status.Components = append(status.Components, w.component())
	}
	used := map[string]bool{"configmaps": true}
	for _, q := range Queries() {
		used[q.Kind.Resource.GroupResource().String()] = true
	}
	for _, gap := range a.s.Gaps {
		if used[gap.Resource] {
			status.Unseen = append(status.Unseen, gap.String())
		}
	}
	slices.Sort(status.Unseen)
	status.Unseen = slices.Compact(status.Unseen)
	status.Healthy = len(a.workloads) > 0 && !slices.ContainsFunc(a.checks, func(c inspect.Check) bool { return c.State == inspect.CheckProblem })
	return status
}

// Queries are what Assess reads, without ConfigMaps: those that Configs names are enough.
func Queries() []snapshot.Query {
	all := []snapshot.Kind{
		snapshot.KindOf[*corev1.Pod](), snapshot.KindOf[*corev1.Node](), snapshot.KindOf[*corev1.PersistentVolume](),
		snapshot.KindOf[*corev1.ServiceAccount](), snapshot.KindOf[*storagev1.StorageClass](),
		snapshot.KindOf[*appsv1.Deployment](), snapshot.KindOf[*appsv1.DaemonSet](), snapshot.KindOf[*coordinationv1.Lease](),
		snapshot.KindOf[*rbacv1.ClusterRole](), snapshot.KindOf[*rbacv1.ClusterRoleBinding](),
		snapshot.KindOf[*rbacv1.Role](), snapshot.KindOf[*rbacv1.RoleBinding](),
		snapshot.KindOf[*admissionv1.ValidatingAdmissionPolicy](), snapshot.KindOf[*admissionv1.ValidatingAdmissionPolicyBinding](),
		snapshot.KindOf[*admissionv1.MutatingAdmissionPolicy](), snapshot.KindOf[*admissionv1.MutatingAdmissionPolicyBinding](),
		snapshot.KindOf[*stowage.LocalDiskReport](), snapshot.KindOf[*stowage.PavProvisioner](),
	}
	var queries []snapshot.Query
	for _, kind := range all {
		// How containers are configured, and why they do not run.
		queries = append(queries, snapshot.Query{Kind: kind, Whole: kind == snapshot.KindOf[*corev1.Pod]()})
	}
	// Of these only whether they are served.
	for _, kind := range []snapshot.Kind{snapshot.KindOf[*stowage.LocalDisk](), snapshot.KindOf[*stowage.LocalDiskTombstone](), snapshot.KindOf[*stowage.PavVolume](), snapshot.KindOf[*stowage.PavStaging]()} {
		queries = append(queries, snapshot.Query{Kind: kind, Fields: "metadata.name=none"})
	}
	return queries
}

// finding is a result of a check that is not OK.
type finding struct {
	state         inspect.CheckState
	message, next string
	link          string
}

func problem(message, next, link string) *finding {
	return &finding{inspect.CheckProblem, message, next, link}
}

func warning(message, next, link string) *finding {
	return &finding{inspect.CheckWarning, message, next, link}
}

// unknown is the finding of a check for which some kinds could not be read.
func unknown(kinds ...string) *finding {
	return &finding{
		inspect.CheckUnknown, "could not be checked: " + format.List(kinds, len(kinds)) + " could not be read",
		"run it as a user who may list them in all namespaces", guide.Page("kubectl-stowage", "rights"),
	}
}

// add records the findings of a check, each once, or that all is well.
func (a *assessment) add(part, name, ok string, findings ...*finding) {
	bad := false
	for _, f := range findings {
		if f == nil {
			continue
		}
		bad = true
		check := inspect.Check{Part: part, Name: name, State: f.state, Message: f.message, Next: f.next, Link: f.link}
		if !slices.Contains(a.checks, check) {
			a.checks = append(a.checks, check)
		}
	}
	if !bad {
		a.checks = append(a.checks, inspect.Check{Part: part, Name: name, State: inspect.CheckOK, Message: ok})
	}
}

// serverLease is the label of the Leases that API servers renew.
const serverLease = "apiserver.kubernetes.io/identity"

// clock returns the time by the clocks of the cluster: the user's may differ. API servers renew a Lease every
// ten seconds. Without these Leases it is the time of the snapshot; of files without a time, that of the last
// renewal of any Lease.
func clock(s *snapshot.Snapshot) time.Time {
	var servers, all time.Time
	for _, lease := range snapshot.Of[*coordinationv1.Lease](s) {
		renewed := lease.Spec.RenewTime
		if renewed == nil {
			continue
		}
		if renewed.After(all) {
			all = renewed.Time
		}
		if _, is := lease.Labels[serverLease]; is && renewed.After(servers) {
			servers = renewed.Time
		}
	}
	switch {
	case !servers.IsZero():
		return servers
	case !s.Time.IsZero():
		return s.Time
	}
	return all
}

// late reports by how much a Lease was not renewed in time, with a margin for the granularity of the clock.
func (a *assessment) late(lease *coordinationv1.Lease) (age time.Duration, late bool) {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return 0, true
	}
	age = max(a.now.Sub(lease.Spec.RenewTime.Time), 0)
	return age, age > time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second+margin
}

// margin is more than the period in which API servers renew their Leases.
const margin = 15 * time.Second

// Summary is the answer in one sentence.
func Summary(status *inspect.Status) string {
	count := map[inspect.CheckState]int{}
	for _, c := range status.Checks {
		count[c.State]++
	}
	var others []string
	for _, s := range []struct {
		state inspect.CheckState
		noun  string
	}{{inspect.CheckWarning, "warning"}, {inspect.CheckUnknown, "check"}} {
		if n := count[s.state]; n > 0 {
			others = append(others, format.Count(n, s.noun))
		}
	}
	if n := count[inspect.CheckUnknown]; n > 0 {
		others[len(others)-1] += " without an answer"
	}
	tail := "."
	if len(others) > 0 {
		tail = ", with " + format.List(others, len(others)) + "."
	}
	switch {
	case count[inspect.CheckProblem] > 0:
		return fmt.Sprintf("Stowage is not healthy: %s%s", format.Count(count[inspect.CheckProblem], "problem"), tail)
	case len(status.Components) == 0 && count[inspect.CheckUnknown] > 0:
		return "No part of Stowage can be seen" + tail
	case len(status.Components) == 0:
		return "Stowage is not installed."
	case count[inspect.CheckUnknown] > 0:
		return "Nothing that could be checked is wrong" + tail
	}
	return "Stowage is healthy" + tail
}
