// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"stowage.dev/stowage/test/cluster"
)

// TestHook: the chart's hook before an uninstall has the manifests' objects, in the
// order rights, then Job. Helm prints the Job's log, which it deletes: whose data is on
// which disk.
func TestHook(t *testing.T) {
	t.Parallel()
	for _, o := range render(t) {
		hook, weight := o.GetAnnotations()["helm.sh/hook"], o.GetAnnotations()["helm.sh/hook-weight"]
		ours := o.GetName() == "stowage-release"
		want := map[bool]string{true: "pre-delete"}[ours]
		if hook != want {
			t.Errorf("%s is hook %q, want %q", name(o), hook, want)
		}
		// The Job last, and before it what gives it rights over all volumes, so that nothing that
		// fails before leaves such rights behind.
		if want := map[string]string{"Job": "2", "ClusterRoleBinding": "1"}[o.GetKind()]; ours && weight != cmp.Or(want, "0") {
			t.Errorf("%s has weight %q", name(o), weight)
		}
		if printed := o.GetAnnotations()["helm.sh/hook-output-log-policy"]; ours && o.GetKind() == "Job" && printed != "hook-succeeded,hook-failed" {
			t.Errorf("%s: Helm prints its log when %q", name(o), printed)
		}
	}
}

// TestKubeletFolder: kubelet's folder is mounted at its own path, and the provisioner looks there.
// The default one is not mentioned.
func TestKubeletFolder(t *testing.T) {
	t.Parallel()
	for folder, flag := range map[string]bool{"/var/lib/kubelet": false, "/var/lib/k0s/kubelet": true} {
		for _, o := range render(t, "kubeletDir="+folder, `provisioner.extraArgs=["--recheck-period=1s"]`, "pav.enabled=true") {
			if o.GetKind() != "DaemonSet" {
				continue
			}
			pod := as[appsv1.DaemonSet](t, o).Spec.Template.Spec
			var from, to []string
			for _, v := range pod.Volumes {
				if v.Name == "kubelet" {
					from = append(from, v.HostPath.Path)
				}
			}
			for _, m := range pod.Containers[0].VolumeMounts {
				if m.Name == "kubelet" {
					to = append(to, m.MountPath)
				}
			}
			if want := []string{folder}; !slices.Equal(from, want) || !slices.Equal(to, want) {
				t.Errorf("%s: %q of the node is mounted at %q", folder, from, to)
			}
			if args := pod.Containers[0].Args; slices.Contains(args, "--kubelet-dir="+folder) != flag {
				t.Errorf("%s: arguments %q", folder, args)
			}
		}
	}
}

// TestExtenderRollout: replicas that are all ready are replaced singly, and a budget
// keeps one of them; of those of which only the leader is ready, all are replaced at once and
// no budget keeps the leader, since rollout and drain would wait forever for another.
func TestExtenderRollout(t *testing.T) {
	t.Parallel()
	for scenario, test := range map[string]struct {
		objects []object
		leads   bool
	}{
		"manifests, full":                     {kustomize(t, "extender/full"), true},
		"manifests, advisory":                 {kustomize(t, "extender/advisory"), false},
		"chart, full":                         {render(t, "extender.enabled=true"), true},
		"chart, full, all answer":             {render(t, "extender.enabled=true", "extender.config.leaderElection.leaderElect=false"), false},
		"chart, full, other election":         {render(t, "extender.enabled=true", "extender.config.leaderElection.retryPeriod=3s"), true},
		"chart, advisory":                     {render(t, "extender.enabled=true", "extender.mode=Advisory"), false},
		"chart, advisory, the leader answers": {render(t, "extender.enabled=true", "extender.mode=Advisory", "extender.config.leaderElection.leaderElect=true"), true},
		"chart, advisory, election is null":   {render(t, "extender.enabled=true", "extender.mode=Advisory", "extender.config.leaderElection.leaderElect=null"), false},
	} {
		unavailable, budgets := "", 0
		for _, o := range test.objects {
			switch o.GetKind() + " " + o.GetName() {
			case "Deployment stowage-extender":
				if update := as[appsv1.Deployment](t, o).Spec.Strategy.RollingUpdate; update != nil {
					unavailable = update.MaxUnavailable.String()
				}
			case "PodDisruptionBudget stowage-extender":
				budgets++
			}
		}
		if want := map[bool]string{true: "100%"}[test.leads]; unavailable != want {
			t.Errorf("%s: maxUnavailable is %q, want %q", scenario, unavailable, want)
		}
		if (budgets == 0) != test.leads {
			t.Errorf("%s: %d budgets", scenario, budgets)
		}
	}
}

// TestVersions: a part that does not fit the API server is refused by its value, and the
// others are made.
func TestVersions(t *testing.T) {
	t.Parallel()
	for version, test := range map[string]struct{ set, err string }{
		"v1.37.1":          {"extender.enabled=true", ""},
		"v1.38.0-eks-1a2b": {"extender.enabled=true", ""},
		"v1.39.0":          {"", "scheduler.enabled: must be false with Kubernetes v1.39.0"},
		"v1.36.4":          {"policies.schedulerName=true", ""},
		"v1.35.2":          {"policies.schedulerName=true", "policies.schedulerName: must be false with Kubernetes v1.35.2, because the kind MutatingAdmissionPolicy is for Kubernetes >=1.36"},
		"v1.35.0":          {"", ""},
		"v1.34.4":          {"", "scheduler.enabled: must be false with Kubernetes v1.34.4, because stowage-scheduler is for Kubernetes >=1.35 <1.39"},
		"v1.36.4-gke.100":  {"scheduler.enabled=false", ""},
		"v1.36.0":          {"scheduler.enabled=false,extender.enabled=true", ""},
		"v1.35.9":          {"scheduler.enabled=false,extender.enabled=true", "extender.enabled: must be false with Kubernetes v1.35.9"},
		"v1.32.0":          {"scheduler.enabled=false", ""},
		"v1.31.9":          {"scheduler.enabled=false,provisioner.enabled=false,controller.enabled=false", "kubeVersion: >=1.32.0-0"},
	} {
		_, err := command(t, tools.helm, "template", release, chart, "--namespace", namespace, "--kube-version", version, "--set", test.set)
		if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s, %s: %v", version, test.set, err)
		}
	}
}

// TestSchedulerOfTheMinor: the scheduler is the one that is built for the API server's minor, or for
// the newest before that; its own tag counts as it is.
func TestSchedulerOfTheMinor(t *testing.T) {
	t.Parallel()
	for set, test := range map[string]struct{ version, want string }{
		"image.tag=v1,scheduler.name=a":            {"v1.35.0", ":v1-kube1.35"},
		"image.tag=v1,scheduler.name=b":            {"v1.36.4-gke.100", ":v1-kube1.36"},
		"image.tag=v1,scheduler.name=c":            {"v1.37.1", ":v1-kube1.37"},
		"image.tag=v1,scheduler.name=d":            {"v1.38.0-eks-1a2b", ":v1-kube1.37"},
		"image.tag=v1,scheduler.image.tag=v2-mine": {"v1.36.0", ":v2-mine"},
	} {
		out, err := command(t, tools.helm, "template", release, chart, "--namespace", namespace, "--kube-version", test.version, "--set", set)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range parse(t, out) {
			for _, image := range imagesOf(o.Object) {
				want := ":v1"
				if strings.Contains(image, "/stowage-scheduler:") {
					want = test.want
				}
				if !strings.HasSuffix(image, want) {
					t.Errorf("Kubernetes %s, %s: image %s, want one that ends with %s", test.version, set, image, want)
				}
			}
		}
	}
}

// TestPresets: the settings of each platform are rendered, and the API server accepts them,
// except SecurityContextConstraints, a kind that it does not have.
func TestPresets(t *testing.T) {
	install(t)
	presets := map[string]struct {
		kubelet, state, disks string
		workersOnly           bool
		kinds                 []string
	}{
		"gke":            {"/var/lib/kubelet", "/var/lib/stowage", "/mnt/disks", false, []string{"ResourceQuota"}},
		"k0s":            {"/var/lib/k0s/kubelet", "/var/lib/stowage", "/mnt/disks", false, nil},
		"k3s":            {"/var/lib/kubelet", "/var/lib/stowage", "/mnt/disks", false, nil},
		"microk8s":       {"/var/snap/microk8s/common/var/lib/kubelet", "/var/lib/stowage", "/mnt/disks", false, nil},
		"openshift":      {"/var/lib/kubelet", "/var/lib/stowage", "/var/mnt/disks", true, []string{"SecurityContextConstraints"}},
		"read-only-root": {"/var/lib/kubelet", "/var/lib/stowage", "/var/mnt/disks", false, nil},
		"talos":          {"/var/lib/kubelet", "/var/lib/stowage", "/var/mnt", true, nil},
	}
	entries, err := os.ReadDir(chart + "/presets")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		preset := strings.TrimSuffix(entry.Name(), ".yaml")
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			want, ok := presets[preset]
			if !ok {
				t.Fatal("the test has no expectation")
			}
			out, err := command(t, tools.helm, "template", release, chart, "--namespace", namespace, "--kube-version", "1.37.1", "--values", chart+"/presets/"+entry.Name(), "--set", "networkPolicy.enabled=true")
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, o := range parse(t, out) {
				if kind := o.GetKind(); slices.Contains([]string{"ResourceQuota", "SecurityContextConstraints"}, kind) {
					kinds = append(kinds, kind)
				}
				if o.GetKind() != "SecurityContextConstraints" {
					if err := cluster.Apply(t.Context(), admin, o, metav1.DryRunAll); err != nil {
						t.Error(err)
					}
				}
				if o.GetKind() != "DaemonSet" {
					continue
				}
				pod := as[appsv1.DaemonSet](t, o).Spec.Template.Spec
				paths := map[string]string{}
				for _, v := range pod.Volumes {
					if v.HostPath != nil {
						paths[v.Name] = v.HostPath.Path
					}
				}
				if paths["kubelet"] != want.kubelet || paths["state"] != want.state || paths["disks"] != want.disks {
					t.Errorf("folders of the node: %v", paths)
				}
				if (pod.Affinity != nil) != want.workersOnly {
					t.Errorf("affinity %v", pod.Affinity)
				}
			}
			if !slices.Equal(kinds, want.kinds) {
				t.Errorf("kinds %q, want %q", kinds, want.kinds)
			}
		})
	}
}

// TestOpenShift: pods in stowage-system name no user, which restricted-v2 refuses, and the
// constraints name the accounts of privileged pods.
func TestOpenShift(t *testing.T) {
	t.Parallel()
	for jobs, want := range map[string][]string{
		"false": {"system:serviceaccount:stowage-system:stowage-provisioner"},
		"true":  {"system:serviceaccount:stowage-system:stowage-provisioner", "system:serviceaccount:stowage-system:default", "system:serviceaccount:stowage-system:stowage-csi"},
	} {
		for _, o := range render(t, "openshift=true", "controller.cleaningJobs="+jobs, "pav.enabled="+jobs) {
			if o.GetKind() == "SecurityContextConstraints" {
				users, _, err := unstructured.NestedStringSlice(o.Object, "users")
				if err != nil || !slices.Equal(users, want) {
					t.Errorf("users %q, want %q, error %v", users, want, err)
				}
			}
			security, _ := dig(o.Object, "spec", "template", "spec", "securityContext").(map[string]any)
			if o.GetNamespace() == namespace && (security["runAsUser"] != nil || security["runAsGroup"] != nil || security["fsGroup"] != nil) {
				t.Errorf("%s names a user: %v", name(o), security)
			}
		}
	}
}

// TestWorkersOnly: nodes of the control plane are excluded in addition to the user's selection.
func TestWorkersOnly(t *testing.T) {
	t.Parallel()
	mine := `provisioner.affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]},{"matchExpressions":[{"key":"b","operator":"Exists"}]}]}}}`
	for _, o := range render(t, "provisioner.controlPlaneNodes=false", mine) {
		if o.GetKind() != "DaemonSet" {
			continue
		}
		var got [][]string
		for _, term := range as[appsv1.DaemonSet](t, o).Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			var keys []string
			for _, e := range term.MatchExpressions {
				keys = append(keys, e.Key+" "+string(e.Operator))
			}
			got = append(got, keys)
		}
		const worker = "node-role.kubernetes.io/control-plane DoesNotExist"
		if diff := gocmp.Diff([][]string{{"a Exists", worker}, {"b Exists", worker}}, got); diff != "" {
			t.Errorf("terms (-want +got):\n%s", diff)
		}
	}
}

// TestReleaseJob: it is placed where the provisioners may be.
func TestReleaseJob(t *testing.T) {
	t.Parallel()
	found := false
	for _, o := range render(t, `provisioner.tolerations=[{"key":"storage","operator":"Exists"}]`, `provisioner.nodeSelector={"disks":"many"}`) {
		if o.GetKind() != "Job" {
			continue
		}
		found = true
		pod := as[batchv1.Job](t, o).Spec.Template.Spec
		if len(pod.Tolerations) != 1 || pod.Tolerations[0].Key != "storage" || pod.NodeSelector["disks"] != "many" {
			t.Errorf("tolerations %v, node selector %v", pod.Tolerations, pod.NodeSelector)
		}
	}
	if !found {
		t.Error("the Job is missing")
	}
}

// TestScrapers: scraping is denied where the list is empty; calls of the scheduler are still allowed.
func TestScrapers(t *testing.T) {
	t.Parallel()
	for _, o := range render(t, "networkPolicy.enabled=true", "extender.enabled=true", "networkPolicy.metricsFrom=[]") {
		if o.GetKind() != "NetworkPolicy" {
			continue
		}
		var ports []string
		for _, rule := range as[networkingv1.NetworkPolicy](t, o).Spec.Ingress {
			for _, port := range rule.Ports {
				ports = append(ports, port.Port.String())
			}
		}
		if want := map[string][]string{"stowage-extender": {"https"}}[o.GetName()]; !slices.Equal(ports, want) {
			t.Errorf("%s: ports %q, want %q", o.GetName(), ports, want)
		}
	}
}

// TestSecureMetrics: probes use HTTPS where it is served, monitors send a token and find the
// pods by a Service, and all components may authenticate scrapers.
func TestSecureMetrics(t *testing.T) {
	t.Parallel()
	objects := byName(t, render(t, "metrics.secure=true", "extender.enabled=true", "pav.enabled=true", "monitoring.enabled=true", `monitoring.prometheusServiceAccount={"namespace":"m","name":"p"}`))
	for part, place := range map[string]struct{ kind, port string }{
		"provisioner": {"DaemonSet", "http"}, "controller": {"Deployment", "http"}, "extender": {"Deployment", "health"}, "csi": {"DaemonSet", "http"},
	} {
		workload := objects[namespace+"/"+place.kind+" stowage-"+part]
		container := as[appsv1.Deployment](t, workload).Spec.Template.Spec.Containers[0]
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			if probe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
				t.Errorf("%s is probed by %q", part, probe.HTTPGet.Scheme)
			}
		}
		if objects[namespace+"/PodMonitor stowage-"+part] != nil {
			t.Errorf("%s has a PodMonitor, which cannot send a token", part)
		}
		monitor := objects[namespace+"/ServiceMonitor stowage-"+part]
		if monitor == nil || !strings.Contains(text(t, []object{monitor}), `"scheme":"https"`) {
			t.Errorf("%s is monitored by %v", part, monitor)
		}
		service := as[corev1.Service](t, objects[namespace+"/Service stowage-"+part+"-metrics"])
		if len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Name != place.port {
			t.Errorf("%s is found by ports %v", part, service.Spec.Ports)
		}
	}
	if subjects := as[rbacv1.ClusterRoleBinding](t, objects["ClusterRoleBinding stowage-metrics-reviews"]).Subjects; len(subjects) != 4 {
		t.Errorf("reviews are for %v", subjects)
	}
	if subjects := as[rbacv1.ClusterRoleBinding](t, objects["ClusterRoleBinding stowage-metrics-reader"]).Subjects; len(subjects) != 1 {
		t.Errorf("metrics are for %v", subjects)
	}
	if objects["ClusterRole stowage-metrics-reader"] == nil {
		t.Error("nothing gives the right to scrape")
	}
}
