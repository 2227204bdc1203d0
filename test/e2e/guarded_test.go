// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/diskreports"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
)

// attacker has the token of a node's provisioner.
type attacker struct {
	volumes kubernetes.Interface
	reports *diskreports.Client
}

// newAttacker reads the token that kubelet has given to the provisioner of a node.
func newAttacker(e *frame.Env, node string) attacker {
	e.T.Helper()
	folder := "/var/lib/kubelet/pods/" + string(provisionerOf(e, node).UID) + "/volumes/kubernetes.io~projected/"
	config := rest.AnonymousClientConfig(e.Cluster.RESTConfig())
	config.BearerToken = on(e, e.Cluster.Node(node), "cat "+folder+"*/token")
	volumes, err := kubernetes.NewForConfig(config)
	e.Do(err)
	reports, err := diskreports.NewClient(config)
	e.Do(err)
	return attacker{volumes, reports}
}

// operation is a request of a provisioner for a volume of its node, or for the report. dryRun is
// an option of the request.
type operation func(ctx context.Context, as attacker, pv *corev1.PersistentVolume, dryRun []string) error

// operations are all requests of provisioners for volumes and reports.
var operations = map[string]operation{
	"publish a volume": func(ctx context.Context, as attacker, pv *corev1.PersistentVolume, dryRun []string) error {
		another := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
			Name: pv.Name[:len(pv.Name)-32] + strings.Repeat("0", 32), Labels: pv.Labels, Annotations: pv.Annotations, Finalizers: []string{wellknown.LocalVolumeFinalizer},
		}, Spec: pv.Spec}
		_, err := as.volumes.CoreV1().PersistentVolumes().Create(ctx, another, metav1.CreateOptions{DryRun: dryRun})
		return err
	},
	"name another disk": func(ctx context.Context, as attacker, pv *corev1.PersistentVolume, dryRun []string) error {
		pv.Annotations[wellknown.DiskIdentityAnnotation] = "another"
		return as.update(ctx, pv, dryRun)
	},
	"remove the finalizer of a volume": func(ctx context.Context, as attacker, pv *corev1.PersistentVolume, dryRun []string) error {
		pv.Finalizers = []string{"kubernetes.io/pv-protection"}
		return as.update(ctx, pv, dryRun)
	},
	"delete a volume": func(ctx context.Context, as attacker, pv *corev1.PersistentVolume, dryRun []string) error {
		return as.volumes.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{DryRun: dryRun})
	},
	"report": func(ctx context.Context, as attacker, pv *corev1.PersistentVolume, dryRun []string) error {
		_, err := as.reports.Patch(ctx, pv.Annotations[wellknown.NodeNameAnnotation], types.MergePatchType,
			[]byte(`{"status":{"entries":null}}`), metav1.PatchOptions{DryRun: dryRun}, "status")
		return err
	},
	"begin a page of the report": func(ctx context.Context, as attacker, pv *corev1.PersistentVolume, dryRun []string) error {
		node := pv.Annotations[wellknown.NodeNameAnnotation]
		page := &stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: node + ".page-16"},
			Spec:       stowage.LocalDiskReportSpec{NodeName: node, Page: 16},
		}
		_, err := as.reports.Create(ctx, page, metav1.CreateOptions{DryRun: dryRun})
		return err
	},
}

func (a attacker) update(ctx context.Context, pv *corev1.PersistentVolume, dryRun []string) error {
	pv.ResourceVersion = "" // the PV controller may have written meanwhile
	_, err := a.volumes.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{DryRun: dryRun})
	return err
}

// TestProvisionersKeepToTheirNode: an attacker with the token of a node's provisioner can do
// what the provisioner may do to the volumes and the report of that node, and nothing to those
// of another node.
func TestProvisionersKeepToTheirNode(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	volumes := map[string]*corev1.PersistentVolume{}
	for _, node := range []string{"one", "three"} {
		plug(e, node, realnode.Disk{Kind: realnode.Ext4, Path: slot("guarded", "disk"), Size: 16 << 20})
	}
	for _, node := range []string{"one", "three"} {
		volumes[node] = published(e, node, slot("guarded", "disk"))
	}
	as := newAttacker(e, "one")
	for name, do := range operations {
		if err := do(e.Context, as, volumes["one"].DeepCopy(), []string{metav1.DryRunAll}); err != nil {
			t.Errorf("%s of its own node: %v", name, err)
		}
		err := do(e.Context, as, volumes["three"].DeepCopy(), nil)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'stowage-provisioner-") {
			t.Errorf("%s of another node: %v, want it to be refused by a policy", name, err)
		}
	}
	pv, err := e.Client.CoreV1().PersistentVolumes().Get(e.Context, volumes["three"].Name, metav1.GetOptions{})
	e.Do(err)
	if pv.UID != volumes["three"].UID || pv.DeletionTimestamp != nil || len(pv.Finalizers) != 2 {
		t.Errorf("the other node's volume is %s, deleted at %v, with finalizers %q", pv.UID, pv.DeletionTimestamp, pv.Finalizers)
	}
}

// TestSchedulerByLabel: in a namespace with the label of manifests/policies, pods with claims that
// name no scheduler are placed by ours. Others are not changed.
func TestSchedulerByLabel(t *testing.T) {
	needsPolicies(t)
	site.Parallel(t)
	e := site.New(t)
	plug(e, "one", realnode.Disk{Kind: realnode.Ext4, Path: slot("labelled", "disk"), Size: 16 << 20})
	published(e, "one", slot("labelled", "disk"))
	e.Create(e.Claim("claim", "labelled"))
	const script = "echo there >/data/claim/word; cat /data/claim/word"
	placedBy := func(pod *corev1.Pod) string {
		made, err := e.Client.CoreV1().Pods(e.Namespace).Create(e.Context, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		e.Do(err)
		return made.Spec.SchedulerName
	}
	if got := placedBy(e.Shell("before", script, "claim")); got != corev1.DefaultSchedulerName {
		t.Errorf("without the label the scheduler is %s", got)
	}
	e.Kubectl("label", "namespace", e.Namespace, "stowage.dev/scheduler=enabled")
	soon(e, "the policy sees the label", func() bool { return placedBy(e.Shell("sees", script, "claim")) == ours })
	if got := placedBy(e.Shell("plain", "true")); got != corev1.DefaultSchedulerName {
		t.Errorf("a pod without claims has scheduler %s", got)
	}
	if got := placedBy(by("another", e.Shell("named", script, "claim"))); got != "another" {
		t.Errorf("a pod that names another scheduler has %s", got)
	}
	forced := e.Shell("forced", script, "claim")
	forced.Spec.NodeName = "one"
	if got := placedBy(forced); got != corev1.DefaultSchedulerName {
		t.Errorf("a pod that is on a node already has scheduler %s", got)
	}
	e.Create(e.Shell("pod", script, "claim"))
	event := e.WaitEvent(e.Namespace, "pod", "Scheduled", "to one")
	if got := event.ReportingController + event.Source.Component; got != ours {
		t.Errorf("the pod was placed by %s, want %s", got, ours)
	}
	if got, _ := finished(e, "pod"); got != "there\n" {
		t.Errorf("the pod reads %q, want what it wrote", got)
	}
}
