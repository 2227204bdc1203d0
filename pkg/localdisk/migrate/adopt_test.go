// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clienttesting "k8s.io/client-go/testing"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/localdisk/migrate"
	"stowage.dev/stowage/pkg/testing/builders"
)

// owned makes a volume one of node a's provisioner.
func owned(pv *corev1.PersistentVolume) {
	metav1.SetMetaDataLabel(&pv.ObjectMeta, wellknown.NodeLabel, localpv.NodeHash("a"))
	metav1.SetMetaDataLabel(&pv.ObjectMeta, wellknown.NodeNameLabel, "a")
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, wellknown.NodeNameAnnotation, "a")
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, localpv.ProvisionedByAnnotation, localpv.ProvisionedBy("a"))
	pv.Finalizers = append(pv.Finalizers, wellknown.LocalVolumeFinalizer)
}

// adopted makes a volume one that was adopted.
func adopted(pv *corev1.PersistentVolume) {
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, wellknown.AdoptedFromAnnotation, pv.Annotations[localpv.ProvisionedByAnnotation])
	owned(pv)
}

func TestFindAdoptable(t *testing.T) {
	const ignored = migrate.Verdict("") // no verdict
	for name, test := range map[string]struct {
		pv      *corev1.PersistentVolume
		others  []runtime.Object
		options migrate.AdoptOptions
		want    migrate.Verdict
		why     string
	}{
		"with the UID of the node in its provisioner": {pv: reference("v").Obj(), want: migrate.Take},
		"with the UID of a Node object that is gone":  {pv: reference("v").ProvisionedBy("local-volume-provisioner-a-" + otherUID).Obj(), want: migrate.Take},
		"with the name of the node alone":             {pv: reference("v").ProvisionedBy("local-volume-provisioner-a").Obj(), want: migrate.Take},
		"of volume mode Block":                        {pv: reference("v").Class("raw").Block().Source(path("/mnt/raw/v")).Obj(), want: migrate.Take},
		"bound":                                       {pv: reference("v").Phase(corev1.VolumeBound).ClaimRef("ns", "claim", "1").Obj(), want: migrate.Take},
		"failed":                                      {pv: reference("v").Phase(corev1.VolumeFailed).Obj(), want: migrate.Take},
		"with the finalizer that all volumes have": {
			pv:   changed(reference("v"), func(pv *corev1.PersistentVolume) { pv.Finalizers = []string{"kubernetes.io/pv-protection"} }),
			want: migrate.Take},
		"that belongs to its Node": {
			pv: changed(reference("v"), func(pv *corev1.PersistentVolume) {
				pv.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "a", UID: nodeUID}}
			}),
			want: migrate.Take},
		"whose adoption was undone in part": {
			pv:   changed(reference("v"), func(pv *corev1.PersistentVolume) { adopted(pv); pv.Labels = nil }),
			want: migrate.Take},
		"released, and to be adopted again": {
			pv: changed(reference("v"), func(pv *corev1.PersistentVolume) {
				metav1.SetMetaDataAnnotation(&pv.ObjectMeta, wellknown.AdoptedFromAnnotation, "local-volume-provisioner-a")
			}),
			want: migrate.Take},
		"adopted": {pv: changed(reference("v"), adopted), want: migrate.Taken},
		"adopted, and being deleted": {
			pv: changed(reference("v").Deleting(), adopted), want: migrate.Taken},

		"published by a provisioner":                {pv: changed(reference("v"), owned), want: ignored},
		"of a CSI driver":                           {pv: builders.MakePV("v").CSI("csi.example.com", "1").Class("fast").Obj(), want: ignored},
		"made by hand in another folder":            {pv: reference("v").ProvisionedBy("me").Source(path("/srv/v")).Obj(), want: ignored},
		"made by hand in the class's folder":        {pv: reference("v").ProvisionedBy("me").Obj(), want: migrate.Leave, why: "the reference did not create it"},
		"of a node that was not selected":           {pv: reference("v").Obj(), options: migrate.AdoptOptions{Nodes: []string{"b"}}, want: ignored},
		"of a node that was selected":               {pv: reference("v").Obj(), options: migrate.AdoptOptions{Nodes: []string{"a", "b"}}, want: migrate.Take},
		"of a class that is not configured":         {pv: reference("v").Class("slow").Obj(), want: migrate.Leave, why: `no class "slow"`},
		"without local path":                        {pv: reference("v").CSI("csi.example.com", "1").Obj(), want: migrate.Leave, why: "no local path"},
		"beside the class's folder":                 {pv: reference("v").Source(path("/mnt/fast-too/v")).Obj(), want: migrate.Leave, why: "/mnt/fast"},
		"deeper in the class's folder":              {pv: reference("v").Source(path("/mnt/fast/v/w")).Obj(), want: migrate.Leave, why: "/mnt/fast"},
		"that is the class's folder":                {pv: reference("v").Source(path("/mnt/fast")).Obj(), want: migrate.Leave, why: "/mnt/fast"},
		"that leads out of the folder":              {pv: reference("v").Source(path("/mnt/fast/../v")).Obj(), want: migrate.Leave, why: "/mnt/fast"},
		"with a path that provisioners do not know": {pv: reference("v").Source(path("/mnt/fast//v")).Obj(), want: migrate.Leave, why: "/mnt/fast"},
		"of another volume mode":                    {pv: reference("v").Block().Obj(), want: migrate.Leave, why: "volumeMode is Block"},

		"of a node that is gone":                       {pv: reference("v").Hostname("gone").Obj(), want: migrate.Leave, why: "no node has the label"},
		"of two nodes":                                 {pv: reference("v").Hostname("a-host", "b-host").Obj(), want: migrate.Leave, why: "node affinity"},
		"of a zone":                                    {pv: reference("v").Zone("z").Obj(), want: migrate.Leave, why: "node affinity"},
		"without node affinity":                        {pv: reference("v").Change(func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }).Obj(), want: migrate.Leave, why: "node affinity"},
		"of a hostname that two nodes have":            {pv: reference("v").Hostname("twin").Obj(), want: migrate.Leave, why: "several nodes"},
		"of another node than its provisioner says":    {pv: reference("v").Hostname("b-host").Obj(), want: migrate.Leave, why: "another one"},
		"of a node with a longer name, after a hyphen": {pv: reference("v").ProvisionedBy("local-volume-provisioner-a-2").Obj(), want: migrate.Leave, why: "another one"},
		"of a node with a longer name":                 {pv: reference("v").ProvisionedBy("local-volume-provisioner-ab").Obj(), want: migrate.Leave, why: "another one"},

		"being deleted": {pv: reference("v").Deleting().Obj(), want: migrate.Leave, why: "being deleted"},
		"with another finalizer": {
			pv:   changed(reference("v"), func(pv *corev1.PersistentVolume) { pv.Finalizers = []string{"example.com/busy"} }),
			want: migrate.Leave, why: "example.com/busy"},
		"with an owner other than its Node": {
			pv: changed(reference("v"), func(pv *corev1.PersistentVolume) {
				pv.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Disk", Name: "d"}}
			}),
			want: migrate.Leave, why: "Disk d"},
		"whose disk another volume offers": {
			pv: reference("v").Obj(), others: []runtime.Object{reference("w").Source(path("/mnt/fast/v")).Obj()},
			want: migrate.Leave, why: "w too"},
		"whose disk a provisioner has published": {
			pv: reference("v").Obj(), others: []runtime.Object{changed(reference("w").Source(path("/mnt/fast/v")), owned)},
			want: migrate.Leave, why: "w too"},
		"with the path of another node's": {
			pv: reference("v").Obj(), others: []runtime.Object{reference("w").Hostname("b-host").ProvisionedBy("local-volume-provisioner-b").Source(path("/mnt/fast/v")).Obj()},
			want: migrate.Take},

		"while the reference runs on its node": {
			pv: reference("v").Obj(), others: referencePod("a", image("registry.example.com:5000/mirror/local-volume-provisioner:v2.9.0@sha256:1")),
			want: migrate.Leave, why: "storage/provisioner-a"},
		"while the reference runs on another node": {
			pv: reference("v").Obj(), others: referencePod("b", image("local-volume-provisioner")), want: migrate.Take},
		"while the reference runs, and WhileRunning is set": {
			pv: reference("v").Obj(), others: referencePod("a", image("local-volume-provisioner")),
			options: migrate.AdoptOptions{WhileRunning: true}, want: migrate.Take},
		"while the reference runs under another name": {
			pv: reference("v").Obj(), others: referencePod("a", corev1.PodSpec{Containers: []corev1.Container{{
				Image: "disks:1", VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/provisioner/config/"}},
			}}}),
			want: migrate.Leave, why: "storage/provisioner-a"},
		"while a job cleans it": {
			pv: reference("v").Obj(), others: []runtime.Object{cleaningJob("v")}, want: migrate.Leave, why: "storage/cleanup-v"},
		"that a job has cleaned": {
			pv:   reference("v").Obj(),
			want: migrate.Take, others: []runtime.Object{cleaningJob("v", batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.options.Config = configuration(t)
			found, err := migrate.FindAdoptable(t.Context(), cluster(append(test.others, test.pv)...), test.options)
			if err != nil {
				t.Fatal(err)
			}
			var got migrate.Candidate
			for _, c := range found.Candidates {
				if c.Volume == "v" {
					got = c
				}
			}
			if got.Verdict != test.want || !strings.Contains(got.Why, test.why) || (got.Why == "") != (test.why == "") {
				t.Errorf("it is %q because %q, want %q because of %q", got.Verdict, got.Why, test.want, test.why)
			}
		})
	}
}

func TestAdopt(t *testing.T) {
	before := changed(reference("v").Label("zone", "z").Annotation("example.com/note", "n"), func(pv *corev1.PersistentVolume) {
		pv.Finalizers = []string{"kubernetes.io/pv-protection"}
		pv.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "a", UID: nodeUID}}
	})
	client := cluster(before)
	got := adopt(t, client)
	want := before.DeepCopy()
	adopted(want)
	want.OwnerReferences = nil
	if diff := cmp.Diff(want.ObjectMeta, got.ObjectMeta, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if !localpv.Owned(got, "a") {
		t.Error("the provisioner does not own the volume")
	}
	writes := writesOf(client.Actions())
	adopt(t, client)
	if again := writesOf(client.Actions()); again != writes {
		t.Errorf("adopted twice: %d writes", again)
	}
}

// adopt adopts what can be, and returns the volume v.
func adopt(t *testing.T, client kubernetes.Interface) *corev1.PersistentVolume {
	t.Helper()
	found, err := migrate.FindAdoptable(t.Context(), client, migrate.AdoptOptions{Config: configuration(t)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range found.Candidates {
		if err := migrate.Adopt(t.Context(), client, &found.Candidates[i]); err != nil {
			t.Fatal(err)
		}
	}
	pv, err := client.CoreV1().PersistentVolumes().Get(t.Context(), "v", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pv
}

func writesOf(actions []clienttesting.Action) int {
	n := 0
	for _, action := range actions {
		if action.GetVerb() != "list" && action.GetVerb() != "get" {
			n++
		}
	}
	return n
}

func TestLostRaces(t *testing.T) {
	for name, answer := range map[string]error{
		"changed": apierrors.NewConflict(corev1.Resource("persistentvolumes"), "v", errors.New("changed")),
		"deleted": apierrors.NewNotFound(corev1.Resource("persistentvolumes"), "v"),
	} {
		t.Run(name, func(t *testing.T) {
			client := cluster(reference("v").ResourceVersion("7").Obj())
			var sent []byte
			client.PrependReactor("patch", "persistentvolumes", func(action clienttesting.Action) (bool, runtime.Object, error) {
				sent = action.(clienttesting.PatchAction).GetPatch()
				return true, nil, answer
			})
			found, err := migrate.FindAdoptable(t.Context(), client, migrate.AdoptOptions{Config: configuration(t)})
			if err != nil {
				t.Fatal(err)
			}
			if err := migrate.Adopt(t.Context(), client, &found.Candidates[0]); !errors.Is(err, migrate.ErrChanged) {
				t.Errorf("got %v, want ErrChanged", err)
			}
			for _, precondition := range []string{`"uid":"uid-v"`, `"resourceVersion":"7"`} {
				if !strings.Contains(string(sent), precondition) {
					t.Errorf("the patch lacks the precondition %s: %s", precondition, sent)
				}
			}
		})
	}
}

func TestUnknownNode(t *testing.T) {
	_, err := migrate.FindAdoptable(t.Context(), cluster(), migrate.AdoptOptions{Config: configuration(t), Nodes: []string{"c"}})
	if err == nil || !strings.Contains(err.Error(), `node "c" does not exist`) {
		t.Errorf("got %v", err)
	}
}

func TestAdoptWithoutAllRights(t *testing.T) {
	client := cluster(reference("v").Obj())
	for _, resource := range []string{"daemonsets", "jobs"} {
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource(resource), "", errors.New("no"))
		})
	}
	found, err := migrate.FindAdoptable(t.Context(), client, migrate.AdoptOptions{Config: configuration(t)})
	if err != nil || len(found.Warnings) != 2 || found.Candidates[0].Verdict != migrate.Take {
		t.Errorf("got %+v, %v, want the volume and two warnings", found, err)
	}
}
