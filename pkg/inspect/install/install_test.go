// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"stowage.dev/stowage/manifests"
	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/testing/builders"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// site is a cluster with all parts, by kind, namespace and name as in "Deployment kube-system/stowage-scheduler".
type site map[string]snapshot.Object

func key(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

func (s site) add(objects ...snapshot.Object) {
	for _, o := range objects {
		s[key(reflect.TypeOf(o).Elem().Name(), o.GetNamespace(), o.GetName())] = o
	}
}

// workloadFiles have the objects of the parts that are not built in.
var workloadFiles = []string{
	"scheduler/second/deployment.yaml", "extender/base/deployment.yaml", "provisioner/daemonset.yaml",
	"provisioner/configmap.yaml", "provisioner/nodes.yaml", "provisioner/storageclass.yaml",
	"controller/base/deployment.yaml", "csi/daemonset.yaml",
}

const (
	controllerConfig = `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
cleaningJobs: {enabled: true}
pavVolumes: {enabled: true, reporterImage: "stowage.dev/stowage-pav-reporter:v1"}
`
	extenderConfig = "extender/full/config.yaml"
)

// newSite is the site that is healthy.
func newSite(t *testing.T) site {
	t.Helper()
	s := site{}
	files, err := fs.Glob(manifests.Files, "*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := fs.Glob(manifests.Files, "*/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(files, deeper) {
		for _, object := range built(file) {
			s.add(object.(snapshot.Object))
		}
	}
	for _, file := range workloadFiles {
		s.addFile(t, file)
	}
	s.add(
		configMap("stowage-controller-config", namespaceOwn, controllerConfig),
		configMap("stowage-extender-config", "kube-system", readManifest(t, extenderConfig)),
		configMap("stowage-scheduler-config", "kube-system", readManifest(t, "scheduler/second/config.yaml")),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:kube-scheduler"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:volume-scheduler"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "extension-apiserver-authentication-reader", Namespace: "kube-system"}},
		builders.MakeNode("one").Obj(),
		report("one", stowage.Entry{Name: "a", State: stowage.EntryAvailable}),
		lease(diskreports.HeartbeatNamespace, "one", "one", 80),
		lease("kube-system", "stowage-scheduler", "stowage-scheduler-0_x", 15),
		lease("kube-system", "stowage-extender", "stowage-extender-0_x", 15),
		lease(namespaceOwn, "stowage-controller", "stowage-controller-0_x", 15),
		&stowage.PavProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "pav"}, Status: stowage.PavProvisionerStatus{Conditions: []metav1.Condition{{Type: "Accepted", Status: "True"}}}},
	)
	for _, object := range s {
		s.run(object)
	}
	return s
}

// run gives a workload its pods, all of which are ready.
func (s site) run(object snapshot.Object) {
	start := func(template *corev1.PodTemplateSpec, replicas int) {
		c := &template.Spec.Containers[0]
		c.Image = "registry.example/" + c.Image + ":v1"
		if object.GetName() == "stowage-scheduler" {
			c.Image += "-kube1.37"
		}
		for i := range replicas {
			s.add(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: object.GetName() + "-" + string(rune('0'+i)), Namespace: object.GetNamespace(), Labels: template.Labels},
				Spec:       corev1.PodSpec{NodeName: "one", Containers: template.Spec.Containers},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			})
		}
	}
	switch w := object.(type) {
	case *appsv1.Deployment:
		start(&w.Spec.Template, int(*w.Spec.Replicas))
		w.Status = appsv1.DeploymentStatus{ReadyReplicas: *w.Spec.Replicas, UpdatedReplicas: *w.Spec.Replicas}
	case *appsv1.DaemonSet:
		start(&w.Spec.Template, 1)
		w.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, NumberReady: 1, UpdatedNumberScheduled: 1}
	}
}

func (s site) addFile(t *testing.T, file string) {
	t.Helper()
	from, err := snapshot.Open(filepath.Join("../../../manifests", file))
	if err != nil {
		t.Fatal(err)
	}
	addAll(s, snapshot.Of[*appsv1.Deployment](from))
	addAll(s, snapshot.Of[*appsv1.DaemonSet](from))
	addAll(s, snapshot.Of[*corev1.ConfigMap](from))
	addAll(s, snapshot.Of[*storagev1.StorageClass](from))
}

func addAll[T snapshot.Object](s site, objects []T) {
	for _, o := range objects {
		s.add(o)
	}
}

func readManifest(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../manifests", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func configMap(name, namespace, config string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: map[string]string{"config.yaml": config}}
}

func lease(namespace, name, holder string, seconds int32) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(now.Add(-time.Second))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
}

func report(node string, entries ...stowage.Entry) *stowage.LocalDiskReport {
	return &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1},
		Status: stowage.LocalDiskReportStatus{
			Entries: entries, Classes: []stowage.ClassStatus{{Name: "local-disks", Ready: true}},
			Conditions: []metav1.Condition{{Type: stowage.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
}

// snapshot returns the site as a snapshot.
func (s site) snapshot() *snapshot.Snapshot {
	var objects []snapshot.Object
	for _, o := range s {
		objects = append(objects, o)
	}
	built := snapshot.Build(objects...)
	built.Time, built.Server = now, &version.Info{GitVersion: "v1.37.1"}
	return built
}

// move moves all parts into namespace storage, as the chart does, and the helper pods to namespace helpers.
func (s site) move(t *testing.T) {
	t.Helper()
	names := strings.NewReplacer(namespaceOwn, "storage", `"namespace":"kube-system"`, `"namespace":"storage"`,
		"resourceNamespace: kube-system", "resourceNamespace: storage", `"namespace":"stowage-pav"`, `"namespace":"helpers"`)
	for was, o := range maps.Clone(s) {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		moved, ok := reflect.New(reflect.TypeOf(o).Elem()).Interface().(snapshot.Object)
		if !ok {
			t.Fatalf("%s is no object", was)
		}
		if err := json.Unmarshal([]byte(names.Replace(string(data))), moved); err != nil {
			t.Fatal(err)
		}
		if o.GetName() == "extension-apiserver-authentication-reader" || o.GetName() == "stowage-scheduler-authentication-reader" {
			moved.SetNamespace("kube-system")
		}
		delete(s, was)
		s.add(moved)
	}
	config := object[*corev1.ConfigMap](t, s, "storage", "stowage-controller-config")
	config.Data["config.yaml"] = strings.Replace(controllerConfig, "pavVolumes: {", "namespace: storage\npavVolumes: {namespace: helpers, ", 1)
}

// object returns an object of the site, to change it.
func object[T snapshot.Object](t *testing.T, s site, namespace, name string) T {
	t.Helper()
	o, ok := s[key(reflect.TypeFor[T]().Elem().Name(), namespace, name)].(T)
	if !ok {
		t.Fatalf("the site has no %s", key(reflect.TypeFor[T]().Elem().Name(), namespace, name))
	}
	return o
}

// faults are the findings of an assessment, without what to do.
func faults(status *inspect.Status) []string {
	var all []string
	for _, c := range status.Checks {
		if c.State != inspect.CheckOK {
			all = append(all, string(c.State)+" "+c.Part+" "+c.Name+": "+c.Message)
		}
	}
	return all
}

// checkAdvice requires that each fault has what to do, and a link to a section that exists.
func checkAdvice(t *testing.T, status *inspect.Status) {
	t.Helper()
	for _, c := range status.Checks {
		if c.State == inspect.CheckOK {
			continue
		}
		name, anchor, _ := strings.Cut(strings.TrimPrefix(c.Link, "https://stowage.dev/docs/"), "#")
		text, err := os.ReadFile(filepath.Join("../../../docs", name+".md"))
		if err != nil || anchor == "" || !slices.Contains(anchors(string(text)), anchor) {
			t.Errorf("%s %s links to %q, which is no section of a page: %v", c.Part, c.Name, c.Link, err)
		}
		if c.Next == "" {
			t.Errorf("%s %s does not say what to do", c.Part, c.Name)
		}
	}
}

var notInAnchors = regexp.MustCompile("[^a-z0-9 _-]+")

// anchors are those of the headings of a page.
func anchors(page string) (all []string) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			text := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#"))), "")
			all = append(all, strings.ReplaceAll(text, " ", "-"))
		}
	}
	return all
}

// TestUnseen: what cannot be read is unknown, and never a fault or well.
func TestUnseen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gaps    []string
		healthy bool
		want    []string
	}{
		"Leases": {
			[]string{"leases.coordination.k8s.io"}, true,
			[]string{
				"Unknown scheduler leader: could not be checked: leases could not be read",
				"Unknown extender leader: could not be checked: leases could not be read",
				"Unknown provisioner nodes: could not be checked: leases could not be read",
				"Unknown controller leader: could not be checked: leases could not be read",
			},
		},
		"rights and policies": {
			[]string{"clusterroles.rbac.authorization.k8s.io", "validatingadmissionpolicies.admissionregistration.k8s.io"}, true,
			[]string{
				"Unknown scheduler rights: could not be checked: roles, rolebindings, clusterroles and clusterrolebindings could not be read",
				"Unknown extender rights: could not be checked: roles, rolebindings, clusterroles and clusterrolebindings could not be read",
				"Unknown provisioner rights: could not be checked: roles, rolebindings, clusterroles and clusterrolebindings could not be read",
				"Unknown provisioner policies: could not be checked: validatingadmissionpolicies could not be read",
				"Unknown controller rights: could not be checked: roles, rolebindings, clusterroles and clusterrolebindings could not be read",
				"Unknown controller policies: could not be checked: validatingadmissionpolicies could not be read",
				"Unknown csi rights: could not be checked: roles, rolebindings, clusterroles and clusterrolebindings could not be read",
				"Unknown csi policies: could not be checked: validatingadmissionpolicies could not be read",
			},
		},
		"listed disks": {
			[]string{"localdisks.stowage.dev"}, true,
			[]string{"Unknown provisioner kinds: could not be checked: localdisks could not be read"},
		},
		"workloads": {
			[]string{"deployments.apps", "daemonsets.apps"}, false,
			[]string{
				"Unknown scheduler workload: could not be checked: deployments and daemonsets could not be read",
				"Unknown extender workload: could not be checked: deployments and daemonsets could not be read",
				"Unknown provisioner workload: could not be checked: deployments and daemonsets could not be read",
				"Unknown controller workload: could not be checked: deployments and daemonsets could not be read",
				"Unknown csi workload: could not be checked: deployments and daemonsets could not be read",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			object[*corev1.ConfigMap](t, s, namespaceOwn, "stowage-provisioner").Data["listDisks"] = "true"
			for at := range s {
				kind, _, _ := strings.Cut(at, " ")
				for _, gap := range test.gaps {
					plural, _, _ := strings.Cut(gap, ".")
					if strings.ToLower(kind)+"s" == plural || strings.TrimSuffix(strings.ToLower(kind), "y")+"ies" == plural {
						delete(s, at)
					}
				}
			}
			snap := s.snapshot()
			for _, gap := range test.gaps {
				snap.Gaps = append(snap.Gaps, snapshot.Gap{Resource: gap, Reason: "forbidden"})
			}
			status := Assess(snap, nil)
			checkAdvice(t, status)
			if diff := cmp.Diff(test.want, faults(status)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if status.Healthy != test.healthy {
				t.Errorf("healthy is %v, want %v", status.Healthy, test.healthy)
			}
			slices.Sort(test.gaps)
			if diff := cmp.Diff(test.gaps, status.Unseen); diff != "" {
				t.Errorf("unseen (-want +got):\n%s", diff)
			}
		})
	}
}

// TestListedDisks: the kind of listed disks must be served if a configuration has them.
func TestListedDisks(t *testing.T) {
	t.Parallel()
	for listed, want := range map[string][]string{"true": {"Problem provisioner kinds: the API server does not serve LocalDisk"}, "false": nil} {
		t.Run(listed, func(t *testing.T) {
			t.Parallel()
			s, folder := newSite(t), t.TempDir()
			object[*corev1.ConfigMap](t, s, namespaceOwn, "stowage-provisioner").Data["listDisks"] = listed
			for name, text := range map[string]string{
				"snapshot.json": `{"absent": ["localdisks.stowage.dev"]}`, "other.json": `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}`,
			} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			without, err := snapshot.Open(folder)
			if err != nil {
				t.Fatal(err)
			}
			status := Assess(snapshot.Merge(s.snapshot(), without), nil)
			checkAdvice(t, status)
			if diff := cmp.Diff(want, faults(status)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFaults breaks one thing of a healthy installation at a time.
func TestFaults(t *testing.T) {
	const (
		scheduler, controllerName = "stowage-scheduler", "stowage-controller"
		system                    = "kube-system"
	)
	for name, test := range map[string]struct {
		change func(t *testing.T, s site)
		want   []string
	}{
		"all is well":                      {func(*testing.T, site) {}, nil},
		"all is well in another namespace": {func(t *testing.T, s site) { s.move(t) }, nil},
		"a policy for another namespace": {
			func(t *testing.T, s site) {
				theirs := s["ValidatingAdmissionPolicy stowage-provisioner-volumes"]
				s.move(t)
				s.add(theirs)
			},
			[]string{"Warning provisioner policies: ValidatingAdmissionPolicy stowage-provisioner-volumes is not that of this version of kubectl stowage: matchConditions differ"},
		},
		"the controller expects provisioners in another namespace": {
			func(t *testing.T, s site) {
				s.move(t)
				config := object[*corev1.ConfigMap](t, s, "storage", "stowage-controller-config")
				config.Data["config.yaml"] = strings.Replace(config.Data["config.yaml"], "namespace: storage\n", "leaderElection: {resourceNamespace: storage}\n", 1)
			},
			[]string{"Problem controller configuration: ConfigMap storage/stowage-controller-config has namespace stowage-system, but the provisioners are in storage: the controller does not find them"},
		},
		"no controller": {
			func(_ *testing.T, s site) { delete(s, "Deployment stowage-system/stowage-controller") },
			[]string{"Problem controller workload: is not installed, but ServiceAccount stowage-system/stowage-controller is there: its workload was deleted"},
		},
		"no controller, as installed": {
			func(_ *testing.T, s site) {
				delete(s, "Deployment stowage-system/stowage-controller")
				delete(s, "ServiceAccount stowage-system/stowage-controller")
			},
			[]string{"Problem controller workload: is not installed, but PavProvisioner pav needs it"},
		},
		"a policy that was deleted": {
			func(_ *testing.T, s site) { delete(s, "ValidatingAdmissionPolicy stowage-provisioner-volumes") },
			[]string{"Problem provisioner policies: ValidatingAdmissionPolicy stowage-provisioner-volumes does not exist"},
		},
		"a policy whose binding was deleted": {
			func(_ *testing.T, s site) { delete(s, "ValidatingAdmissionPolicyBinding stowage-pav-pods") },
			[]string{"Problem controller policies: ValidatingAdmissionPolicy stowage-pav-pods has no binding, so it does nothing"},
		},
		"a policy that only warns": {
			func(t *testing.T, s site) {
				object[*admissionv1.ValidatingAdmissionPolicyBinding](t, s, "", "stowage-csi-stagings").Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
			},
			[]string{"Problem csi policies: ValidatingAdmissionPolicy stowage-csi-stagings denies nothing: validationActions of its binding stowage-csi-stagings lacks Deny"},
		},
		"a policy that applies to some namespaces": {
			func(t *testing.T, s site) {
				object[*admissionv1.ValidatingAdmissionPolicyBinding](t, s, "", "stowage-csi-stagings").Spec.MatchResources = &admissionv1.MatchResources{
					ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				}
			},
			[]string{"Problem csi policies: ValidatingAdmissionPolicy stowage-csi-stagings does not apply to all requests: its binding stowage-csi-stagings has matchResources"},
		},
		"a policy that lets pass what it cannot evaluate": {
			func(t *testing.T, s site) {
				object[*admissionv1.ValidatingAdmissionPolicy](t, s, "", "stowage-provisioner-nodes").Spec.FailurePolicy = new(admissionv1.Ignore)
			},
			[]string{"Problem provisioner policies: ValidatingAdmissionPolicy stowage-provisioner-nodes does not deny while it cannot be evaluated: its failurePolicy is Ignore"},
		},
		"a policy with one validation less": {
			func(t *testing.T, s site) {
				spec := &object[*admissionv1.ValidatingAdmissionPolicy](t, s, "", "stowage-provisioner-nodes").Spec
				spec.Validations = spec.Validations[1:]
			},
			[]string{"Warning provisioner policies: ValidatingAdmissionPolicy stowage-provisioner-nodes is not that of this version of kubectl stowage: validations differ"},
		},
		"a right that was removed": {
			func(t *testing.T, s site) {
				role := object[*rbacv1.ClusterRole](t, s, "", "stowage-provisioner")
				role.Rules[0].Verbs = []string{"get", "list", "watch", "create", "update", "patch"}
			},
			[]string{"Problem provisioner rights: ServiceAccount stowage-system/stowage-provisioner lacks 1 right: delete persistentvolumes"},
		},
		"a binding of rights that was removed": {
			func(_ *testing.T, s site) { delete(s, "RoleBinding kube-system/stowage-scheduler-leader-election") },
			[]string{"Problem scheduler rights: ServiceAccount kube-system/stowage-scheduler lacks 1 right: get,update leases.coordination.k8s.io named stowage-scheduler in namespace kube-system"},
		},
		"a role of Kubernetes that does not exist": {
			func(_ *testing.T, s site) { delete(s, "ClusterRole system:volume-scheduler") },
			[]string{"Problem scheduler rights: ServiceAccount kube-system/stowage-scheduler has no rights of ClusterRole system:volume-scheduler, which does not exist"},
		},
		"a right by a role of the administrator": {
			func(_ *testing.T, s site) {
				delete(s, "RoleBinding kube-system/stowage-scheduler-leader-election")
				s.add(
					&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "leases"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"leases"}, Verbs: []string{"*"}}}},
					&rbacv1.ClusterRoleBinding{
						ObjectMeta: metav1.ObjectMeta{Name: "leases"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "leases"},
						Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:serviceaccounts:kube-system"}},
					},
				)
			},
			nil,
		},
		"a provisioner that does not send heartbeats": {
			func(t *testing.T, s site) {
				object[*coordinationv1.Lease](t, s, diskreports.HeartbeatNamespace, "one").Spec.RenewTime = new(metav1.NewMicroTime(now.Add(-3 * time.Minute)))
			},
			[]string{"Problem provisioner nodes: no heartbeat from one for 3m"},
		},
		"a node with disks and no pod": {
			func(_ *testing.T, s site) { s.add(builders.MakeNode("two").Obj(), report("two")) },
			[]string{"Problem provisioner nodes: no provisioner runs on two"},
		},
		"a report of a node that was deleted": {
			func(_ *testing.T, s site) { s.add(report("two")) },
			nil,
		},
		"a provisioner with an invalid configuration": {
			func(t *testing.T, s site) {
				object[*stowage.LocalDiskReport](t, s, "", "one").Status.Conditions = []metav1.Condition{{Type: stowage.ConditionConfigValid, Status: "False", Reason: "Invalid", Message: "hostDir: Required value"}}
			},
			[]string{"Problem provisioner nodes: the report has ConfigValid False, Invalid: hostDir: Required value on one"},
		},
		"a scheduler that is newer than the API server": {
			func(t *testing.T, s site) { setImage(t, s, "registry.example/stowage-scheduler:v1-kube1.38") },
			[]string{"Problem scheduler version: the scheduler of kube-system/stowage-scheduler is built from Kubernetes 1.38, which is newer than the API server, v1.37.1: it refuses to run"},
		},
		"a scheduler that is two minors older": {
			func(t *testing.T, s site) { setImage(t, s, "registry.example/stowage-scheduler:v1-kube1.35") },
			[]string{"Problem scheduler version: the scheduler of kube-system/stowage-scheduler is built from Kubernetes 1.35, which is too old for the API server, v1.37.1"},
		},
		"a scheduler that is one minor older, of another version": {
			func(t *testing.T, s site) { setImage(t, s, "registry.example:5000/stowage-scheduler:v2-kube1.36") },
			[]string{"Warning cluster version: the parts have different versions: v1 of extender, provisioner, controller and csi; v2 of scheduler"},
		},
		"an image by its digest": {
			func(t *testing.T, s site) {
				setImage(t, s, "registry.example/stowage-scheduler@sha256:0123456789abcdef")
			},
			nil,
		},
		"a container that crashes": {
			func(t *testing.T, s site) {
				object[*appsv1.Deployment](t, s, system, scheduler).Status.ReadyReplicas = 1
				pod := object[*corev1.Pod](t, s, system, scheduler+"-1")
				pod.Status.Conditions = nil
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
					State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "unsupported version skew\nmore"}},
				}}
			},
			[]string{"Problem scheduler replicas: 1 of 2 ready in Deployment kube-system/stowage-scheduler: pod stowage-scheduler-1 waits with CrashLoopBackOff, exit code 1: unsupported version skew"},
		},
		"pods that a quota does not admit": {
			func(t *testing.T, s site) {
				object[*appsv1.Deployment](t, s, namespaceOwn, controllerName).Status = appsv1.DeploymentStatus{
					Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: "True", Message: "insufficient quota to match these scopes"}},
				}
				delete(s, "Pod stowage-system/stowage-controller-0")
				delete(s, "Pod stowage-system/stowage-controller-1")
			},
			[]string{
				"Problem controller replicas: 0 of 2 ready in Deployment stowage-system/stowage-controller: insufficient quota to match these scopes",
				"Problem controller leader: no replica of stowage-system/stowage-controller leads: Lease stowage-system/stowage-controller is held by stowage-controller-0, which is not one of its pods",
			},
		},
		"an extender with one ready replica": {
			func(t *testing.T, s site) {
				object[*appsv1.Deployment](t, s, system, "stowage-extender").Status.ReadyReplicas = 1
			},
			nil,
		},
		"a leader that does not renew its Lease": {
			func(t *testing.T, s site) {
				object[*coordinationv1.Lease](t, s, system, scheduler).Spec.RenewTime = new(metav1.NewMicroTime(now.Add(-time.Minute)))
			},
			[]string{"Problem scheduler leader: no replica leads: stowage-scheduler-0 has not renewed Lease kube-system/stowage-scheduler for 60s"},
		},
		"a clock of the user that is an hour ahead": {
			func(t *testing.T, s site) {
				for _, o := range s {
					if l, ok := o.(*coordinationv1.Lease); ok {
						l.Spec.RenewTime = new(metav1.NewMicroTime(now.Add(-time.Hour)))
					}
				}
				apiServer := lease(system, "apiserver-x", "x", 3600)
				apiServer.Labels = map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}
				apiServer.Spec.RenewTime = new(metav1.NewMicroTime(now.Add(-time.Hour)))
				s.add(apiServer)
			},
			nil,
		},
		"a configuration that cannot be decoded": {
			func(t *testing.T, s site) {
				object[*corev1.ConfigMap](t, s, namespaceOwn, "stowage-controller-config").Data["config.yaml"] = strings.Replace(controllerConfig, "cleaningJobs", "cleaningJob", 1)
			},
			[]string{
				`Problem controller configuration: ConfigMap stowage-system/stowage-controller-config is not valid: decode the configuration: strict decoding error: unknown field "cleaningJob"`,
			},
		},
		"a configuration of the scheduler without the plugin": {
			func(t *testing.T, s site) {
				object[*corev1.ConfigMap](t, s, system, "stowage-scheduler-config").Data["config.yaml"] = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
			},
			[]string{"Problem scheduler configuration: ConfigMap kube-system/stowage-scheduler-config is not valid: profiles: none enables VolumeTopology"},
		},
		"a ConfigMap that was deleted": {
			func(_ *testing.T, s site) { delete(s, "ConfigMap stowage-system/stowage-provisioner") },
			[]string{"Problem provisioner configuration: ConfigMap stowage-system/stowage-provisioner does not exist, so no pod of it can start"},
		},
		"a startup taint of which only another key may be removed": {
			func(t *testing.T, s site) {
				data := object[*corev1.ConfigMap](t, s, namespaceOwn, "stowage-provisioner").Data
				data["removeNodeNotReadyTaint"], data["provisionerNotReadyNodeTaintKey"] = "true", "example.com/taint"
			},
			[]string{"Problem provisioner rights: ServiceAccount stowage-system/stowage-provisioner lacks 1 right: remove startuptaints.stowage.dev named example.com/taint"},
		},
		"metrics over TLS without the right to authenticate": {
			func(t *testing.T, s site) {
				c := &object[*appsv1.Deployment](t, s, namespaceOwn, controllerName).Spec.Template.Spec.Containers[0]
				c.Args = append(c.Args, "--secure-metrics")
			},
			[]string{"Problem controller rights: ServiceAccount stowage-system/stowage-controller lacks 2 rights: create subjectaccessreviews.authorization.k8s.io and create tokenreviews.authentication.k8s.io"},
		},
		"a second DaemonSet with an invalid configuration": {
			func(t *testing.T, s site) {
				second := object[*appsv1.DaemonSet](t, s, namespaceOwn, "stowage-provisioner").DeepCopy()
				second.Name = "stowage-provisioner-two"
				for i := range second.Spec.Template.Spec.Volumes {
					if v := &second.Spec.Template.Spec.Volumes[i]; v.ConfigMap != nil {
						v.ConfigMap.Name = "two"
					}
				}
				two := configMap("two", namespaceOwn, "")
				two.Data = map[string]string{"storageClassMap": "two: {}"}
				s.add(second, two)
			},
			[]string{"Problem provisioner configuration: ConfigMap stowage-system/two is not valid: storageClassMap[two].hostDir: Required value: must be the folder on the node where the disks of this class are found"},
		},
		"a class that the policy does not allow, and that does not exist": {
			func(t *testing.T, s site) {
				object[*corev1.ConfigMap](t, s, namespaceOwn, "stowage-provisioner").Data["storageClassMap"] = "local-disks: {hostDir: /mnt/disks}\nfast: {hostDir: /mnt/fast}\n"
			},
			[]string{
				"Problem provisioner classes: the admission policy does not allow volumes of fast: classes of ConfigMap stowage-system/stowage-provisioner-nodes lacks it",
				"Problem provisioner classes: StorageClass fast does not exist: its disks are not published",
			},
		},
		"disks in trouble": {
			func(_ *testing.T, s site) {
				s.add(report("one", stowage.Entry{Name: "a", State: stowage.EntryFailing, Reason: "IOError"}, stowage.Entry{Name: "b", State: stowage.EntryFailing, Reason: "IOError"},
					stowage.Entry{Name: "c", State: stowage.EntryMissing}, stowage.Entry{Name: "e", State: stowage.EntryAvailable, Reason: "DriveWarning"},
					stowage.Entry{Name: "f", State: stowage.EntryBound, Reason: "DriveWarning"}, stowage.Entry{Name: "g", State: stowage.EntryAvailable, Reason: "Grown"},
					stowage.Entry{Name: "d", State: stowage.EntrySkipped, Reason: "NotMountPoint"}))
			},
			[]string{"Warning cluster disks: 2 disks Degraded with reason DriveWarning on one", "Warning cluster disks: 2 disks Failing with reason IOError on one", "Warning cluster disks: 1 disk Missing on one"},
		},
		"a PavProvisioner that is not accepted": {
			func(t *testing.T, s site) {
				object[*stowage.PavProvisioner](t, s, "", "pav").Status.Conditions = []metav1.Condition{{Type: "Accepted", Status: "False", Reason: "InvalidSpec", Message: "volumeStaging: Required value"}}
			},
			[]string{"Warning cluster pavprovisioners: PavProvisioner pav is not accepted, InvalidSpec: volumeStaging: Required value"},
		},
		"pods of a scheduler that does not run": {
			func(_ *testing.T, s site) {
				s.add(&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "db-0", Namespace: "tenant", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
					Spec:       corev1.PodSpec{SchedulerName: "stowage-schedular"},
				})
			},
			[]string{"Problem cluster pods: no scheduler serves schedulerName stowage-schedular, which 1 pod has: tenant/db-0"},
		},
		"a pod that its scheduler could not place": {
			func(_ *testing.T, s site) {
				s.add(&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "db-0", Namespace: "tenant", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
					Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False"}}},
				})
			},
			nil,
		},
		"a volume of a provisioner that was uninstalled by force": {
			func(_ *testing.T, s site) {
				for _, name := range []string{"DaemonSet stowage-system/stowage-provisioner", "ServiceAccount stowage-system/stowage-provisioner", "ConfigMap stowage-system/stowage-provisioner"} {
					delete(s, name)
				}
				s.add(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "local-pv-one", Finalizers: []string{"stowage.dev/local-volume"}}})
			},
			[]string{"Problem provisioner workload: is not installed, but volume local-pv-one is one that only a provisioner cleans and deletes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			test.change(t, s)
			status := Assess(s.snapshot(), nil)
			checkAdvice(t, status)
			if diff := cmp.Diff(test.want, faults(status)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			bad := slices.ContainsFunc(test.want, func(text string) bool { return strings.HasPrefix(text, "Problem") })
			if status.Healthy == bad {
				t.Errorf("healthy is %v, with faults %q", status.Healthy, test.want)
			}
		})
	}
}

// setImage changes the image of the scheduler.
func setImage(t *testing.T, s site, image string) {
	object[*appsv1.Deployment](t, s, "kube-system", "stowage-scheduler").Spec.Template.Spec.Containers[0].Image = image
}
