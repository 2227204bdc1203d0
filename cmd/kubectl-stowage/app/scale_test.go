// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/testing/builders"
)

// lists are the encoded lists of resources.
type lists map[string][]byte

// ServeHTTP answers lists as an API server does, with a selector of pods.
func (l lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if resource == "version" {
		fmt.Fprint(w, `{"major": "1", "minor": "37", "gitVersion": "v1.37.1"}`)
		return
	}
	list, served := l[resource]
	if selector := r.URL.Query().Get("fieldSelector"); selector == "spec.nodeName=" || selector == "metadata.name=waits" {
		list = l["unscheduled"]
	}
	if !served {
		http.Error(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	if resource == "localdiskreports" {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	}
	_, _ = w.Write(list) // the client notices
}

// addList encodes a list.
func addList(b *testing.B, l lists, resource string, encoder runtime.Encoder, list runtime.Object) {
	b.Helper()
	text, err := runtime.Encode(encoder, list)
	if err != nil {
		b.Fatal(err)
	}
	l[resource] = text
}

// largeCluster has 5,000 nodes, 50,000 volumes, 30,000 claims and 30,000 pods.
func largeCluster(b *testing.B) lists {
	b.Helper()
	managed := []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":"` + strings.Repeat("x", 1000) + `"}`)}}}
	var (
		nodes   []corev1.Node
		volumes []corev1.PersistentVolume
		claims  []corev1.PersistentVolumeClaim
		pods    []corev1.Pod
		reports []stowage.LocalDiskReport
	)
	for n := range 5000 {
		name := fmt.Sprintf("node-%04d", n)
		node := builders.MakeNode(name).Hostname(name).Zone(fmt.Sprintf("zone-%d", n%3)).Obj()
		for i := range 50 {
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", i, i)}})
		}
		node.ManagedFields = managed
		nodes = append(nodes, *node)
		report := stowage.LocalDiskReport{
			TypeMeta:   metav1.TypeMeta{APIVersion: stowage.SchemeGroupVersion.String(), Kind: "LocalDiskReport"},
			ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: managed}, Spec: stowage.LocalDiskReportSpec{NodeName: name, Page: 1},
		}
		for v := range 10 {
			id := fmt.Sprintf("%04d-%d", n, v)
			pv := builders.MakePV("pv-" + id).Class("local").Hostname(name).Capacity("100Gi")
			state := stowage.EntryAvailable
			if v < 6 {
				state = stowage.EntryBound
				pv.ClaimRef("default", "claim-"+id, "uid-"+id).Phase(corev1.VolumeBound)
				claims = append(claims, *builders.MakePVC("claim-" + id).Class("local").Request("100Gi").UID("uid-" + id).Bound("pv-" + id).Obj())
				pod := builders.MakePod("pod-" + id).PVC("claim-" + id).Node(name).Obj()
				pod.ManagedFields = managed
				for range 20 {
					pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "NAME_OF_A_VARIABLE", Value: "value of the variable"})
				}
				pods = append(pods, *pod)
			}
			object := pv.Obj()
			object.ManagedFields = managed
			volumes = append(volumes, *object)
			report.Status.Entries = append(report.Status.Entries, stowage.Entry{
				Class: "local", Name: "disk-" + strconv.Itoa(v), Path: "/mnt/local/disk-" + strconv.Itoa(v), State: state, Volume: "pv-" + id, Bytes: 100 << 30,
				Kind: "Mount", Mode: "Filesystem", Identity: fmt.Sprintf("fs:9b1d2f30-55aa-4c1e-8a77-%012d:/@6f1c2b9d0e8a4f73", n*10+v), Since: &metav1.Time{Time: time.Unix(1, 0)},
			})
		}
		reports = append(reports, report)
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	core := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	storage := scheme.Codecs.EncoderForVersion(info.Serializer, storagev1.SchemeGroupVersion)
	own := runtime.NewScheme()
	if err := stowage.AddToScheme(own); err != nil {
		b.Fatal(err)
	}
	json := serializer.NewCodecFactory(own).LegacyCodec(stowage.SchemeGroupVersion)
	l := lists{}
	addList(b, l, "nodes", core, &corev1.NodeList{Items: nodes})
	addList(b, l, "persistentvolumes", core, &corev1.PersistentVolumeList{Items: volumes})
	addList(b, l, "persistentvolumeclaims", core, &corev1.PersistentVolumeClaimList{Items: claims})
	addList(b, l, "pods", core, &corev1.PodList{Items: pods})
	addList(b, l, "unscheduled", core, &corev1.PodList{Items: []corev1.Pod{*builders.MakePod("waits").PVC("missing").SchedulerName("stowage-scheduler").Obj()}})
	addList(b, l, "events", core, &corev1.EventList{})
	addList(b, l, "storageclasses", storage, &storagev1.StorageClassList{Items: []storagev1.StorageClass{*builders.MakeClass("local").Obj()}})
	addList(b, l, "localdiskreports", json, &stowage.LocalDiskReportList{Items: reports})
	return l
}

// inProcess is the environment variable that makes the test binary the plugin, with these arguments.
const inProcess = "STOWAGE_TEST_PLUGIN_ARGUMENTS"

// TestPluginProcess is the plugin in a process of its own, for BenchmarkLargeCluster.
func TestPluginProcess(t *testing.T) {
	arguments := os.Getenv(inProcess)
	if arguments == "" {
		t.Skip("for BenchmarkLargeCluster")
	}
	code := Main(strings.Fields(arguments), strings.NewReader(""), io.Discard, os.Stderr)
	status, _ := os.ReadFile("/proc/self/status") // the resource usage of a process includes its parent's before exec
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println(strings.Fields(peak + " 0")[0])
	os.Exit(code)
}

// BenchmarkLargeCluster: commands against an API server with 5,000 nodes, 50,000 volumes, 30,000 claims and 30,000
// pods take less than 5 s and 1 GiB, each in a process of its own, reading included.
func BenchmarkLargeCluster(b *testing.B) {
	server := httptest.NewServer(largeCluster(b))
	defer server.Close()
	b.Setenv("KUBECONFIG", os.DevNull)
	for _, arguments := range []string{"why pod waits", "map", "map -o wide", "why pvc claim-0001-1", "why pv pv-0001-1", "why disk node-0001/disk-1", "why node node-0001"} {
		b.Run(arguments, func(b *testing.B) {
			memory := 0
			for b.Loop() {
				cmd := exec.Command(os.Args[0], "-test.run=^TestPluginProcess$")
				cmd.Env = append(os.Environ(), inProcess+"="+arguments+" --server "+server.URL)
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err != nil {
					b.Fatal(err)
				}
				kibibytes, err := strconv.Atoi(strings.TrimSpace(string(out)))
				if err != nil {
					b.Fatal(err)
				}
				memory = max(memory, kibibytes)
			}
			b.ReportMetric(float64(memory)/1024, "MiB")
		})
	}
}
