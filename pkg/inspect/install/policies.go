// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// policyFiles are the manifests with the policies that a part needs with its configuration.
func (a *assessment) policyFiles(p *part) (needed, optional []string) {
	switch p.name {
	case schedulerPart:
		return nil, []string{"policies/scheduler-name.yaml"}
	case extenderPart:
		return []string{"extender/base/policy.yaml"}, nil
	case provisionerPart:
		needed = []string{
			"provisioner/policy-volumes.yaml", "provisioner/policy-placement.yaml", "provisioner/policy-reports.yaml",
			"provisioner/policy-nodes.yaml", "provisioner/policy-heartbeats.yaml",
		}
		if a.listsDisks() {
			needed = append(needed, "provisioner/policy-disks.yaml")
		}
		return needed, nil
	case controllerPart:
		if a.configs.controller != nil && a.configs.controller.PavVolumes.Enabled {
			return []string{"controller/pav-policy.yaml"}, nil
		}
		return nil, nil
	}
	return []string{"csi/policy-stagings.yaml"}, nil
}

// listsDisks reports whether a configuration of provisioners has LocalDisks written.
func (a *assessment) listsDisks() bool {
	return slices.ContainsFunc(a.configs.provisioners, func(c *provisioner.ProvisionerConfiguration) bool { return c.ListDisks })
}

// policies checks that the admission policies of a part exist, are bound and deny.
func (a *assessment) policies(p *part) {
	needed, optional := a.policyFiles(p)
	var found []*finding
	var names []string
	for _, file := range slices.Concat(needed, optional) {
		for _, object := range built(file) {
			var f *finding
			name := ""
			switch policy := object.(type) {
			case *admissionv1.ValidatingAdmissionPolicy:
				name, f = policy.Name, a.validating(policy, p)
			case *admissionv1.MutatingAdmissionPolicy:
				if slices.Contains(optional, file) && snapshot.Find[*admissionv1.MutatingAdmissionPolicy](a.s, "", policy.Name) == nil {
					continue
				}
				name, f = policy.Name, a.mutating(policy, p)
			default:
				continue
			}
			names = append(names, name)
			found = append(found, f)
		}
	}
	if len(names) > 0 {
		a.add(p.name, checkPolicies, format.List(names, few)+" in force", found...)
	}
}

// policiesPage describes the policies.
var policiesPage = guide.Page("security", "the-provisioners-policies")

// validating checks a policy against the one of the manifests.
func (a *assessment) validating(want *admissionv1.ValidatingAdmissionPolicy, p *part) *finding {
	title := "ValidatingAdmissionPolicy " + want.Name
	have := snapshot.Find[*admissionv1.ValidatingAdmissionPolicy](a.s, "", want.Name)
	if have == nil {
		return a.absent(title, snapshot.Complete[*admissionv1.ValidatingAdmissionPolicy](a.s), snapshot.Served[*admissionv1.ValidatingAdmissionPolicy](a.s), p)
	}
	var bound *admissionv1.ValidatingAdmissionPolicyBinding
	for _, b := range snapshot.Of[*admissionv1.ValidatingAdmissionPolicyBinding](a.s) {
		if b.Spec.PolicyName == want.Name && (bound == nil || deniesAll(b)) {
			bound = b
		}
	}
	switch {
	case bound == nil && !snapshot.Complete[*admissionv1.ValidatingAdmissionPolicyBinding](a.s):
		return unknown("validatingadmissionpolicybindings")
	case bound == nil:
		return problem(title+" has no binding, so it does nothing", p.apply(), policiesPage)
	case !slices.Contains(bound.Spec.ValidationActions, admissionv1.Deny):
		return problem(fmt.Sprintf("%s denies nothing: validationActions of its binding %s lacks Deny", title, bound.Name), p.apply(), policiesPage)
	case !deniesAll(bound):
		return problem(fmt.Sprintf("%s does not apply to all requests: its binding %s has matchResources", title, bound.Name), p.apply(), policiesPage)
	case ptr.Deref(have.Spec.FailurePolicy, admissionv1.Fail) != admissionv1.Fail:
		return problem(title+" does not deny while it cannot be evaluated: its failurePolicy is Ignore", p.apply(), policiesPage)
	}
	if what := changed(&have.Spec, &want.Spec, p, namespaceOf(a.workloads, p.name)); what != "" {
		return warning(title+" is not that of this version of kubectl stowage: "+what, p.apply()+", or use the kubectl stowage of the installed version", policiesPage)
	}
	return nil
}

// deniesAll reports whether a binding denies, and restricts the policy to no part of the requests.
func deniesAll(b *admissionv1.ValidatingAdmissionPolicyBinding) bool {
	m := b.Spec.MatchResources
	return slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) && (m == nil ||
		(m.NamespaceSelector == nil || len(m.NamespaceSelector.MatchLabels)+len(m.NamespaceSelector.MatchExpressions) == 0) &&
			(m.ObjectSelector == nil || len(m.ObjectSelector.MatchLabels)+len(m.ObjectSelector.MatchExpressions) == 0) &&
			len(m.ResourceRules)+len(m.ExcludeResourceRules) == 0)
}

// changed says in which field a policy differs from the one of the manifests, with the account of the
// part in its namespace; empty if in none that decides.
func changed(have, want *admissionv1.ValidatingAdmissionPolicySpec, p *part, namespace string) string {
	want = want.DeepCopy()
	for i := range want.MatchConditions {
		expression := &want.MatchConditions[i].Expression
		*expression = strings.ReplaceAll(*expression, account{p.namespace, p.app()}.user(), account{namespace, p.app()}.user())
	}
	// Conditions are compared by what they evaluate: names are for messages.
	conditions := func(s *admissionv1.ValidatingAdmissionPolicySpec) (all []string) {
		for _, c := range s.MatchConditions {
			all = append(all, strings.TrimSpace(c.Expression))
		}
		return all
	}
	validations := func(s *admissionv1.ValidatingAdmissionPolicySpec) (all []string) {
		for _, v := range s.Validations {
			all = append(all, strings.TrimSpace(v.Expression))
		}
		return all
	}
	variables := func(s *admissionv1.ValidatingAdmissionPolicySpec) (all []string) {
		for _, v := range s.Variables {
			all = append(all, v.Name+": "+strings.TrimSpace(v.Expression))
		}
		return all
	}
	rules := func(s *admissionv1.ValidatingAdmissionPolicySpec) (all []string) {
		if s.MatchConstraints == nil {
			return nil
		}
		for _, r := range s.MatchConstraints.ResourceRules {
			all = append(all, fmt.Sprint(r.APIGroups, r.APIVersions, r.Resources, r.Operations, r.ResourceNames))
		}
		return append(all, fmt.Sprint("without", len(s.MatchConstraints.ExcludeResourceRules)))
	}
	switch {
	case !slices.Equal(conditions(have), conditions(want)):
		return "matchConditions differ"
	case !slices.Equal(rules(have), rules(want)):
		return "matchConstraints differ"
	case !slices.Equal(variables(have), variables(want)):
		return "variables differ"
	case !slices.Equal(validations(have), validations(want)):
		return "validations differ"
	}
	return ""
}

// mutating checks that a policy exists and is bound. Its conditions and its failurePolicy are settings.
func (a *assessment) mutating(want *admissionv1.MutatingAdmissionPolicy, p *part) *finding {
	title := "MutatingAdmissionPolicy " + want.Name
	if snapshot.Find[*admissionv1.MutatingAdmissionPolicy](a.s, "", want.Name) == nil {
		return a.absent(title, snapshot.Complete[*admissionv1.MutatingAdmissionPolicy](a.s), snapshot.Served[*admissionv1.MutatingAdmissionPolicy](a.s), p)
	}
	switch {
	case slices.ContainsFunc(snapshot.Of[*admissionv1.MutatingAdmissionPolicyBinding](a.s), func(b *admissionv1.MutatingAdmissionPolicyBinding) bool {
		return b.Spec.PolicyName == want.Name
	}):
		return nil
	case !snapshot.Complete[*admissionv1.MutatingAdmissionPolicyBinding](a.s):
		return unknown("mutatingadmissionpolicybindings")
	}
	return problem(title+" has no binding, so it does nothing", p.apply(), guide.Page("extender", "installing"))
}

// absent is the finding of a policy that is not in the snapshot.
func (a *assessment) absent(title string, complete, served bool, p *part) *finding {
	kind, _, _ := strings.Cut(title, " ")
	switch {
	case !served:
		return problem("the API server does not serve "+kind+", so "+title+" cannot be installed", "use a version of Kubernetes that has it", guide.Page("compatibility", "asked-of-a-cluster"))
	case !complete:
		return unknown(strings.TrimSuffix(strings.ToLower(kind), "y") + "ies")
	}
	return problem(title+" does not exist", p.apply(), policiesPage)
}

// kind is a kind of stowage.dev. It is known whether it is served if it could be listed: the answer to users
// without the right is the same for kinds that do not exist.
type kind struct {
	name          string
	served, known bool
}

func kindOf[T snapshot.Object](s *snapshot.Snapshot) kind {
	return kind{snapshot.KindOf[T]().Kind, snapshot.Served[T](s), snapshot.Complete[T](s)}
}

// kinds checks that the API server serves the kinds of a part.
func (a *assessment) kinds(p *part) {
	local := []kind{kindOf[*stowage.LocalDiskReport](a.s), kindOf[*stowage.LocalDiskTombstone](a.s)}
	pav := []kind{kindOf[*stowage.PavProvisioner](a.s), kindOf[*stowage.PavVolume](a.s), kindOf[*stowage.PavStaging](a.s)}
	var all []kind
	folder := "manifests/crd"
	switch {
	case p.name == provisionerPart:
		all = local
		if a.listsDisks() {
			all = append(all, kindOf[*stowage.LocalDisk](a.s))
		}
	case p.name == controllerPart:
		all = local
		if a.configs.controller != nil && a.configs.controller.PavVolumes.Enabled {
			all = slices.Concat(local, pav)
			folder = "manifests/crd and manifests/crd/pav"
		}
	case p.name == csiPart:
		all, folder = pav, "manifests/crd/pav"
	default:
		return
	}
	var names, missing, unseen []string
	for _, k := range all {
		names = append(names, k.name)
		switch {
		case !k.served:
			missing = append(missing, k.name)
		case !k.known:
			unseen = append(unseen, strings.ToLower(k.name)+"s")
		}
	}
	var lacks *finding
	if len(unseen) > 0 {
		lacks = unknown(unseen...)
	}
	if len(missing) > 0 {
		lacks = problem("the API server does not serve "+format.List(missing, len(missing)), "apply "+folder+", or with Helm set crds.enabled", guide.Parts.Link())
	}
	a.add(p.name, checkKinds, format.List(names, len(names))+" served", lacks)
}
