// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/version"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// installed checks that a part exists if something needs it.
func (a *assessment) installed(p *part, own []*workload) {
	if len(own) > 0 {
		var names []string
		for _, w := range own {
			names = append(names, w.kind+" "+w.String())
		}
		var several *finding
		if p.name != provisionerPart && len(own) > 1 {
			several = warning("is installed "+strconv.Itoa(len(own))+" times: "+format.List(names, few), "delete all but one, unless they have different Leases", guide.Page("install", "what-there-is"))
		}
		a.add(p.name, checkWorkload, format.List(names, few), several)
		return
	}
	if !snapshot.Complete[*appsv1.Deployment](a.s) || !snapshot.Complete[*appsv1.DaemonSet](a.s) {
		a.add(p.name, checkWorkload, "", unknown("deployments", "daemonsets"))
		return
	}
	if why := a.needed(p); why != "" {
		a.add(p.name, checkWorkload, "", problem("is not installed, but "+why, p.apply(), guide.Page("install", "what-there-is")))
		return
	}
	var lacks *finding
	if p.name == controllerPart && a.has(provisionerPart) {
		lacks = warning("is not installed: lost nodes and provisioners that do not run are not noticed", p.apply(), guide.Page("controller", "install"))
	}
	a.add(p.name, checkWorkload, "is not installed, and nothing that could be seen needs it", lacks)
}

// needed returns what needs a part that is not installed; empty if nothing.
func (a *assessment) needed(p *part) string {
	for _, account := range snapshot.Of[*corev1.ServiceAccount](a.s) {
		if account.Name == p.app() {
			return fmt.Sprintf("ServiceAccount %s/%s is there: its workload was deleted", account.Namespace, account.Name)
		}
	}
	provisioners := snapshot.Of[*stowage.PavProvisioner](a.s)
	switch p.name {
	case provisionerPart:
		if m := a.configMap(settings(a.workloads)); m != nil {
			return fmt.Sprintf("ConfigMap %s/%s configures it", m.Namespace, m.Name)
		}
		for _, pv := range snapshot.Of[*corev1.PersistentVolume](a.s) {
			if localdisks.Managed(pv) {
				return fmt.Sprintf("volume %s is one that only a provisioner cleans and deletes", pv.Name)
			}
		}
	case controllerPart:
		switch {
		case slices.ContainsFunc(a.configs.provisioners, func(c *provisioner.ProvisionerConfiguration) bool { return c.UseJobForCleaning }):
			return "the provisioners' configuration has useJobForCleaning, so they wait for its Jobs"
		case len(provisioners) > 0:
			return fmt.Sprintf("PavProvisioner %s needs it", provisioners[0].Name)
		case a.has(csiPart):
			return "the node services of PavProvisioners need it"
		}
		for _, class := range snapshot.Of[*storagev1.StorageClass](a.s) {
			if class.Annotations[wellknown.NodeLossAnnotation] != "" {
				return fmt.Sprintf("class %s has the annotation %s, which it reads", class.Name, wellknown.NodeLossAnnotation)
			}
		}
	case csiPart:
		switch {
		case len(provisioners) > 0:
			return fmt.Sprintf("pods cannot use the volumes of PavProvisioner %s", provisioners[0].Name)
		case a.configs.controller != nil && a.configs.controller.PavVolumes.Enabled:
			return "the controller's configuration has pavVolumes.enabled"
		}
	}
	return ""
}

// replicas checks that all pods of a workload are ready, or of a leader that stands alone, that one is.
func (a *assessment) replicas(w *workload) {
	ok := fmt.Sprintf("%d of %d ready", w.ready, w.wanted)
	if w.kind != staticPod {
		ok += " in " + w.String()
	}
	link := guide.Parts.Link()
	// Of an extender that elects a leader, the leader alone is ready.
	enough := w.wanted
	if w.part.name == extenderPart && a.configs.extender != nil && *a.configs.extender.LeaderElection.LeaderElect {
		enough = min(enough, 1)
	}
	describe := fmt.Sprintf("kubectl -n %s describe %s %s", w.namespace, strings.ToLower(w.kind), w.name)
	if bad := w.firstBad(); bad != nil {
		describe = fmt.Sprintf("kubectl -n %s describe pod %s; kubectl -n %s logs %s --previous", w.namespace, bad.Name, w.namespace, bad.Name)
	}
	switch {
	case w.wanted == 0 && w.kind == "DaemonSet":
		a.add(w.part.name, checkReplicas, "", problem(fmt.Sprintf("DaemonSet %s selects no node", w), "compare its nodeSelector and affinity with the labels of nodes", link))
	case w.wanted == 0:
		a.add(w.part.name, checkReplicas, "", problem(fmt.Sprintf("%s %s has 0 replicas", w.kind, w), fmt.Sprintf("kubectl -n %s scale %s %s --replicas=2", w.namespace, strings.ToLower(w.kind), w.name), link))
	case w.ready < enough:
		message := fmt.Sprintf("%d of %d ready in %s %s", w.ready, w.wanted, w.kind, w)
		if why := w.trouble(); why != "" {
			message += ": " + why
		}
		a.add(w.part.name, checkReplicas, "", problem(message, describe, link))
	case !w.observed || w.updated < w.wanted:
		a.add(w.part.name, checkReplicas, "", warning(fmt.Sprintf("%s: %d of %d pods have the last specification of %s %s", ok, w.updated, w.wanted, w.kind, w),
			fmt.Sprintf("kubectl -n %s rollout status %s %s", w.namespace, strings.ToLower(w.kind), w.name), guide.Page("operate", "upgrade")))
	default:
		a.add(w.part.name, checkReplicas, ok)
	}
}

// firstBad returns the first pod that is not ready; nil if none is known.
func (w *workload) firstBad() *corev1.Pod {
	if i := slices.IndexFunc(w.pods, func(pod *corev1.Pod) bool { return !podReady(pod) }); i >= 0 {
		return w.pods[i]
	}
	return nil
}

// trouble says why pods are not ready: of the pods that exist, and why others cannot be created.
func (w *workload) trouble() string {
	for _, c := range w.conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	if pod := w.firstBad(); pod != nil {
		return "pod " + pod.Name + " " + podTrouble(pod)
	}
	return ""
}

// podTrouble says why a pod is not ready.
func podTrouble(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			return "is not scheduled: " + c.Message
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := c.State.Waiting; waiting != nil {
			text := "waits with " + waiting.Reason
			if last := c.LastTerminationState.Terminated; last != nil {
				return text + terminated(last)
			}
			if waiting.Message != "" {
				text += ": " + waiting.Message
			}
			return text
		}
		if c.State.Terminated != nil {
			return "has ended" + terminated(c.State.Terminated)
		}
	}
	return "runs and is not ready"
}

// terminated describes the end of a container by the first line of its message.
func terminated(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf(", exit code %d", t.ExitCode)
	if line, _, _ := strings.Cut(strings.TrimSpace(t.Message), "\n"); line != "" {
		return text + ": " + line
	}
	return text
}

// builtFor is the end of the tag of a scheduler, which names the minor that it is built from.
var builtFor = regexp.MustCompile(`-kube(1\.[0-9]+)$`)

// version checks that the scheduler's minor is one that the API server supports.
func (a *assessment) version(w *workload) {
	image := w.container().Image
	tag := imageTag(image)
	if tag == "" {
		a.add(w.part.name, checkVersion, "image "+image+" has no tag that says its version")
		return
	}
	if w.part.name != schedulerPart {
		a.add(w.part.name, checkVersion, tag)
		return
	}
	minor := builtFor.FindStringSubmatch(tag)
	if minor == nil {
		a.add(w.part.name, checkVersion, fmt.Sprintf("%s, which does not name the minor of Kubernetes that it is built from", tag))
		return
	}
	link := guide.Page("compatibility", "minors-of-the-scheduler")
	if a.s.Server == nil {
		a.add(w.part.name, checkVersion, "", &finding{inspect.CheckUnknown, fmt.Sprintf("the scheduler of %s is built from Kubernetes %s, and the version of the API server is not known", w, minor[1]), "compare it with kubectl version", link})
		return
	}
	own, err := version.ParseGeneric(minor[1])
	server, serverErr := version.ParseGeneric(a.s.Server.GitVersion)
	if err != nil || serverErr != nil {
		a.add(w.part.name, checkVersion, fmt.Sprintf("%s; API server %s", tag, a.s.Server.GitVersion))
		return
	}
	next := fmt.Sprintf("run the build whose tag ends with -kube%d.%d: with Helm run helm upgrade, else set the tag in manifests/images", server.Major(), server.Minor())
	var skew *finding
	switch {
	case own.Minor() > server.Minor():
		skew = problem(fmt.Sprintf("the scheduler of %s is built from Kubernetes %s, which is newer than the API server, %s: it refuses to run", w, minor[1], a.s.Server.GitVersion), next, link)
	case own.Minor()+1 < server.Minor():
		skew = problem(fmt.Sprintf("the scheduler of %s is built from Kubernetes %s, which is too old for the API server, %s", w, minor[1], a.s.Server.GitVersion), next, link)
	}
	a.add(w.part.name, checkVersion, fmt.Sprintf("%s, which supports the API server, %s", tag, a.s.Server.GitVersion), skew)
}

// skew checks that all parts have one version. The end of the scheduler's tag is not a part of it.
func (a *assessment) skew() {
	by := map[string][]string{}
	for _, w := range a.workloads {
		if tag := builtFor.ReplaceAllString(imageTag(w.container().Image), ""); tag != "" && !slices.Contains(by[tag], w.part.name) {
			by[tag] = append(by[tag], w.part.name)
		}
	}
	if len(by) == 0 {
		return
	}
	var versions []string
	for tag, names := range by {
		versions = append(versions, tag+" of "+format.List(names, len(names)))
	}
	slices.Sort(versions)
	var several *finding
	if len(by) > 1 {
		several = warning("the parts have different versions: "+strings.Join(versions, "; "), "upgrade all parts to one version", guide.Page("operate", "upgrade"))
	}
	a.add(partCluster, checkVersion, "all parts have version "+strings.Join(strings.Fields(versions[0])[:1], ""), several)
}

// leader checks that a pod of the workload holds the Lease of its part, and renews it.
func (a *assessment) leader(w *workload) {
	if !w.part.leads || w.wanted == 0 {
		return
	}
	election := a.configs.election(w)
	if election == nil {
		return // the configuration disables it, or is not known
	}
	lease := snapshot.Find[*coordinationv1.Lease](a.s, election.Namespace, election.Name)
	name := election.Namespace + "/" + election.Name
	logs := fmt.Sprintf("kubectl -n %s logs %s/%s", w.namespace, strings.ToLower(w.kind), w.name)
	link := guide.Parts.Link()
	if lease == nil {
		if !snapshot.Complete[*coordinationv1.Lease](a.s) {
			a.add(w.part.name, checkLeader, "", unknown("leases"))
			return
		}
		a.add(w.part.name, checkLeader, "", problem("no replica leads: Lease "+name+" does not exist", logs, link))
		return
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	host, _, _ := strings.Cut(holder, "_")
	age, late := a.late(lease)
	switch {
	case holder == "":
		a.add(w.part.name, checkLeader, "", problem("no replica leads: nothing holds Lease "+name, logs, link))
	case late:
		a.add(w.part.name, checkLeader, "", problem(fmt.Sprintf("no replica leads: %s has not renewed Lease %s for %s", host, name, format.Age(a.now.Add(-age), a.now)), logs, link))
	case w.kind != staticPod && snapshot.Complete[*corev1.Pod](a.s) && !slices.ContainsFunc(w.pods, func(pod *corev1.Pod) bool { return isHost(pod, host) }):
		a.add(w.part.name, checkLeader, "", problem(fmt.Sprintf("no replica of %s leads: Lease %s is held by %s, which is not one of its pods", w, name, host),
			"stop the other process that uses this Lease, or set leaderElection.resourceName to another name", guide.Page("configuration", "enabling-the-plugin")))
	default:
		w.leader = host
		a.add(w.part.name, checkLeader, cmp.Or(host, holder))
	}
}

// isHost reports whether a pod has the name of a host: its own, or its node's in the network of the node.
func isHost(pod *corev1.Pod, host string) bool {
	return strings.HasPrefix(pod.Name, host) || pod.Spec.HostNetwork && pod.Spec.NodeName == host
}
