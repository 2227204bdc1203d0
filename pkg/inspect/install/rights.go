// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-helpers/auth/rbac/validation"

	"stowage.dev/stowage/manifests"
	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// built returns the objects of a manifest that is built in. Its content is known: errors are panics, which the
// tests would have.
func built(file string) []runtime.Object {
	text, err := manifests.Files.ReadFile(file)
	if err != nil {
		panic(err)
	}
	var objects []runtime.Object
	decoder := serializer.NewCodecFactory(clientscheme.Scheme).UniversalDeserializer()
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			panic(err)
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			panic(err)
		}
		objects = append(objects, object)
	}
}

// account is a service account, or the user system:kube-scheduler if name is empty.
type account struct{ namespace, name string }

const kubeScheduler = "system:kube-scheduler"

// user is the account's name in requests.
func (a account) user() string {
	if a.name == "" {
		return kubeScheduler
	}
	return "system:serviceaccount:" + a.namespace + ":" + a.name
}

// is reports whether a subject of a binding includes the account.
func (a account) is(s rbacv1.Subject) bool {
	groups := []string{"system:authenticated"}
	if a.name != "" {
		if s.Kind == rbacv1.ServiceAccountKind && s.Namespace == a.namespace && s.Name == a.name {
			return true
		}
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+a.namespace)
	}
	return s.Kind == rbacv1.UserKind && s.Name == a.user() || s.Kind == rbacv1.GroupKind && slices.Contains(groups, s.Name)
}

func (a account) String() string {
	if a.name == "" {
		return "user " + kubeScheduler
	}
	return "ServiceAccount " + a.namespace + "/" + a.name
}

// Rules are rights by namespace; those of the whole cluster are at "".
type Rules map[string][]rbacv1.PolicyRule

// Reviews returns what the users of the components need, by user as in system:serviceaccount:NAMESPACE:NAME. An API
// server knows what they have. The snapshot is that of Assess.
func Reviews(s *snapshot.Snapshot) map[string]Rules {
	all := map[string]Rules{}
	a := newAssessment(s)
	for _, w := range a.workloads {
		to, need, _ := a.needs(w)
		user := to.user()
		if all[user] == nil {
			all[user] = Rules{}
		}
		for namespace, wanted := range need {
			all[user][namespace] = append(all[user][namespace], wanted...)
		}
	}
	return all
}

// roles finds the rules of roles.
type roles struct {
	cluster map[string][]rbacv1.PolicyRule
	local   map[snapshot.Name][]rbacv1.PolicyRule
}

func newRoles(clusterRoles []*rbacv1.ClusterRole, local []*rbacv1.Role) roles {
	r := roles{map[string][]rbacv1.PolicyRule{}, map[snapshot.Name][]rbacv1.PolicyRule{}}
	for _, role := range clusterRoles {
		r.cluster[role.Name] = role.Rules
	}
	for _, role := range local {
		r.local[snapshot.Name{Namespace: role.Namespace, Name: role.Name}] = role.Rules
	}
	return r
}

// of returns the rules of a role to which a binding in a namespace refers.
func (r roles) of(ref rbacv1.RoleRef, namespace string) (found []rbacv1.PolicyRule, ok bool) {
	if ref.Kind == "ClusterRole" {
		found, ok = r.cluster[ref.Name]
		return found, ok
	}
	found, ok = r.local[snapshot.Name{Namespace: namespace, Name: ref.Name}]
	return found, ok
}

// granted returns the rights of an account.
func granted(s *snapshot.Snapshot, r roles, to account) Rules {
	all := Rules{}
	for _, b := range snapshot.Of[*rbacv1.ClusterRoleBinding](s) {
		if slices.ContainsFunc(b.Subjects, to.is) {
			found, _ := r.of(b.RoleRef, "")
			all[""] = append(all[""], found...)
		}
	}
	for _, b := range snapshot.Of[*rbacv1.RoleBinding](s) {
		if slices.ContainsFunc(b.Subjects, to.is) {
			found, _ := r.of(b.RoleRef, b.Namespace)
			all[b.Namespace] = append(all[b.Namespace], found...)
		}
	}
	return all
}

// required returns the rights that manifests give to the account of a workload, in its own namespaces. Roles that the manifests do not
// have, as Kubernetes' own, are found in the cluster, which lacks those in absent.
func (a *assessment) required(files []string, w *workload) (all Rules, absent []string) {
	var clusterRoles []*rbacv1.ClusterRole
	var local []*rbacv1.Role
	var objects []runtime.Object
	for _, file := range files {
		objects = append(objects, built(file)...)
	}
	for _, object := range objects {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			clusterRoles = append(clusterRoles, role)
		case *rbacv1.Role:
			local = append(local, role)
		}
	}
	own := newRoles(clusterRoles, local)
	all = Rules{}
	as := account{w.part.namespace, w.app()}
	if w.kind == staticPod {
		as = account{}
	}
	add := func(namespace, target string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if !slices.ContainsFunc(subjects, as.is) {
			return
		}
		found, ok := own.of(ref, namespace)
		if !ok {
			if found, ok = a.roles.of(ref, namespace); !ok {
				absent = append(absent, ref.Kind+" "+ref.Name)
			}
			target = namespace
		}
		all[target] = append(all[target], found...)
	}
	for _, object := range objects {
		switch b := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			add("", "", b.RoleRef, b.Subjects)
		case *rbacv1.RoleBinding:
			target := b.Namespace
			switch {
			case target == w.part.namespace:
				target = w.namespace
			case target == namespacePav && a.configs.controller != nil:
				target = a.configs.controller.PavVolumes.Namespace
			}
			add(b.Namespace, target, b.RoleRef, b.Subjects)
		}
	}
	return all, absent
}

// lacking returns the rights that are required and not granted, as text, sorted.
func lacking(need, have Rules) []string {
	type thing struct{ group, resource, name, namespace string }
	verbs := map[thing][]string{}
	for namespace, wanted := range need {
		_, missing := validation.Covers(slices.Concat(have[""], have[namespace]), wanted)
		for _, rule := range missing {
			t := thing{namespace: namespace}
			if len(rule.APIGroups) > 0 && len(rule.Resources) > 0 {
				t.group, t.resource = rule.APIGroups[0], rule.Resources[0]
			}
			if len(rule.NonResourceURLs) > 0 {
				t.resource = rule.NonResourceURLs[0]
			}
			if len(rule.ResourceNames) > 0 {
				t.name = rule.ResourceNames[0]
			}
			if !slices.Contains(verbs[t], rule.Verbs[0]) {
				verbs[t] = append(verbs[t], rule.Verbs[0])
			}
		}
	}
	var texts []string
	for t, v := range verbs {
		resource, sub, isSub := strings.Cut(t.resource, "/")
		if t.group != "" {
			resource += "." + t.group
		}
		if isSub {
			resource += "/" + sub
		}
		text := strings.Join(v, ",") + " " + resource
		if t.name != "" {
			text += " named " + t.name
		}
		if t.namespace != "" {
			text += " in namespace " + t.namespace
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

// rightsFiles are the manifests with the rights that a workload needs with the configuration of its part.
func (a *assessment) rightsFiles(w *workload) []string {
	c := &a.configs
	switch w.part.name {
	case schedulerPart:
		files := []string{"scheduler/second/rbac.yaml"}
		if w.kind == staticPod {
			files = []string{"scheduler/only/rbac.yaml"}
		}
		if c.args == nil || c.args.BindingMode == configv1.BindingModeDirect {
			files = append(files, "scheduler/direct-binding/role.yaml")
		}
		return files
	case extenderPart:
		files := []string{"extender/base/rbac.yaml"}
		if c.extender == nil || c.extender.Mode == "Full" {
			files = append(files, "extender/full/rbac.yaml")
		}
		return files
	case provisionerPart:
		files := []string{"provisioner/rbac.yaml"}
		if slices.ContainsFunc(c.provisioners, removesTaint) {
			files = append(files, "provisioner/startup-taint/rbac.yaml")
		}
		return files
	case controllerPart:
		files := []string{"controller/base/rbac.yaml"}
		if a.has(provisionerPart) || a.has(csiPart) {
			files = append(files, "provisioner/rbac.yaml") // it reads the provisioners' Leases
		}
		if c.controller != nil && c.controller.CleaningJobs.Enabled {
			files = append(files, "controller/cleaning-jobs.yaml")
		}
		if c.controller != nil && c.controller.ClaimBinder.BindNow.Enabled {
			files = append(files, "controller/bind-now.yaml")
		}
		if c.controller != nil && c.controller.ClaimBinder.InPlace.Enabled {
			files = append(files, "controller/pv-binder.yaml")
		}
		if c.controller != nil && c.controller.PavVolumes.Enabled {
			files = append(files, "controller/pav-volumes.yaml")
		}
		return files
	}
	return []string{"csi/rbac.yaml"}
}

// needs returns the account of a workload, and the rights that it needs. absent are roles that have more of these and do
// not exist in the snapshot.
func (a *assessment) needs(w *workload) (to account, need Rules, absent []string) {
	to = account{w.namespace, cmp.Or(w.pod.ServiceAccountName, "default")}
	if w.kind == staticPod {
		to = account{} // it has the kubeconfig of kube-scheduler
	}
	need, absent = a.required(a.rightsFiles(w), w)
	if w.part.name == provisionerPart {
		a.tuneTaints(need)
	}
	if slices.Contains(w.container().Args, "--secure-metrics") {
		need[""] = append(need[""], secureMetrics...)
	}
	return to, need, absent
}

// rights checks that the account of each workload has the rights that the manifests give it: as the API server has
// reviewed them, else by roles and bindings.
func (a *assessment) rights(p *part, own []*workload) {
	rolesRead := snapshot.Complete[*rbacv1.ClusterRole](a.s) && snapshot.Complete[*rbacv1.Role](a.s)
	allRead := rolesRead && snapshot.Complete[*rbacv1.ClusterRoleBinding](a.s) && snapshot.Complete[*rbacv1.RoleBinding](a.s)
	var found []*finding
	var names []string
	for _, w := range own {
		to, need, absent := a.needs(w)
		byRoles := lacking(need, granted(a.s, a.roles, to))
		missing := byRoles
		reviewed, isReviewed := a.reviewed[to.user()]
		if isReviewed {
			missing = lacking(need, reviewed)
		}
		names = append(names, to.String())
		lacks := fmt.Sprintf("%s lacks %s", to, format.Count(len(missing), "right"))
		link := guide.Page("security", "who-can-do-what")
		switch {
		case len(missing) == 0 && len(absent) == 0:
		case !isReviewed && !allRead, len(missing) == 0 && !rolesRead:
			found = append(found, unknown("roles", "rolebindings", "clusterroles", "clusterrolebindings"))
		case len(absent) > 0 && rolesRead:
			found = append(found, problem(fmt.Sprintf("%s has no rights of %s, which does not exist", to, format.List(absent, few)), "restart the API server, which creates its own roles", link))
		case len(byRoles) == 0:
			found = append(found, problem(lacks+" that roles give it: "+format.List(missing, few), "look for another authorizer of the API server, such as a webhook, that denies this", link))
		default:
			found = append(found, problem(lacks+": "+format.List(missing, few), p.apply(), link))
		}
	}
	a.add(p.name, checkRights, format.List(slices.Compact(names), few)+" has all that it needs", found...)
}

// secureMetrics are the rights to authenticate and authorize those who read /metrics, as ClusterRole
// system:auth-delegator has them.
var secureMetrics = []rbacv1.PolicyRule{
	{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
	{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
}

func removesTaint(c *provisioner.ProvisionerConfiguration) bool { return c.RemoveNodeNotReadyTaint }

// tuneTaints replaces the key of the startup taint by those of the configurations.
func (a *assessment) tuneTaints(need Rules) {
	var keys []string
	for _, c := range a.configs.provisioners {
		if removesTaint(c) {
			keys = append(keys, c.NodeNotReadyTaintKey)
		}
	}
	for i, rule := range need[""] {
		if slices.Contains(rule.Resources, "startuptaints") {
			need[""][i].ResourceNames = keys
		}
	}
}
