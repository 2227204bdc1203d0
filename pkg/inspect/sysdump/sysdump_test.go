// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package sysdump

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// apiServer answers as an API server with two pods on two pages, of which the second expires once; nodes that may not
// be listed, claims of one namespace only, no kinds of PaV, and events that it fails to list.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	answer := func(w http.ResponseWriter, code int, object any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}
	fail := func(w http.ResponseWriter, err *apierrors.StatusError) {
		err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		answer(w, int(err.ErrStatus.Code), err.ErrStatus)
	}
	pod := func(name, next string) corev1.PodList {
		return corev1.PodList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{Continue: next},
			Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "other", Args: []string{"secret-arg"}}}}}},
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, version.Info{GitVersion: "v1.37.1"}) })
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("continue") {
		case "":
			answer(w, 200, pod("first", "old"))
		case "old":
			err := apierrors.NewResourceExpired("too old")
			err.ErrStatus.Continue = "newer"
			fail(w, err)
		default:
			answer(w, 200, pod("second", ""))
		}
	})
	forbidden := func(resource string) *apierrors.StatusError {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
	}
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, _ *http.Request) { fail(w, forbidden("nodes")) })
	mux.HandleFunc("GET /api/v1/persistentvolumeclaims", func(w http.ResponseWriter, _ *http.Request) { fail(w, forbidden("persistentvolumeclaims")) })
	mux.HandleFunc("GET /api/v1/namespaces/tenant/persistentvolumeclaims", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, corev1.PersistentVolumeClaimList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaimList"},
			Items:    []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "data"}}},
		})
	})
	mux.HandleFunc("GET /api/v1/events", func(w http.ResponseWriter, _ *http.Request) { fail(w, apierrors.NewBadRequest("broken")) })
	mux.HandleFunc("GET /api/v1/namespaces/stowage-system/pods/{pod}/log", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("pod") == "away" {
			fail(w, apierrors.NewBadRequest("the node is away"))
			return
		}
		fmt.Fprintf(w, "dropped\nlog of %s, previous %q\n", r.URL.Query().Get("container"), r.URL.Query().Get("previous"))
	})
	mux.HandleFunc("GET /api/v1/namespaces/stowage-system/pods/http:here:8080/proxy/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up 1") })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func own(name string, restarts int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "stowage-system", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}},
		Status:     corev1.PodStatus{PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: restarts}}},
	}
}

// TestWrite: what can be read is in the archive, what cannot is named, and --from reads it.
func TestWrite(t *testing.T) {
	t.Parallel()
	queries := []snapshot.Query{
		{Kind: snapshot.KindOf[*corev1.Pod]()}, {Kind: snapshot.KindOf[*corev1.Node]()}, {Kind: snapshot.KindOf[*corev1.PersistentVolumeClaim]()},
		{Kind: snapshot.KindOf[*stowage.PavProvisioner]()}, {Kind: snapshot.KindOf[*corev1.Event]()},
	}
	var archive bytes.Buffer
	missing, err := Write(t.Context(), &archive, Config{
		Connection: apiServer(t), Namespace: "tenant", Folder: "dump", Queries: queries, Redactor: redactor,
		Pods: []*corev1.Pod{own("here", 1), own("away", 0)}, Files: map[string][]byte{"status.txt": []byte("well"), "status.json": []byte(`{"apiVersion": "inspect.stowage.dev/v1alpha1", "kind": "Status"}`)},
		LogBytes: 32, Progress: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	var short []string
	for _, text := range missing {
		what, _, _ := strings.Cut(text, ":")
		short = append(short, what)
	}
	want := []string{
		"list events", "list nodes", "list persistentvolumeclaims outside namespace tenant",
		"log main.log of stowage-system/away", "metrics of stowage-system/away by the pod proxy of the API server",
	}
	if diff := cmp.Diff(want, short); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	text := archive.String()
	file := filepath.Join(t.TempDir(), "dump.tar.gz")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files := untar(t, []byte(text))
	for name, content := range map[string]string{
		"dump/status.txt":                                 "well",
		"dump/logs/stowage-system/here/main.log":          "(8 bytes before this are not in the dump)\nlog of main, previous \"\"\n",
		"dump/logs/stowage-system/here/main.previous.log": "(8 bytes before this are not in the dump)\nlog of main, previous \"true\"\n",
		"dump/metrics/stowage-system/here/main.txt":       "up 1\n",
		"dump/errors.txt":                                 strings.Join(missing, "\n") + "\n",
	} {
		if diff := cmp.Diff(content, files[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, content := range files {
		if strings.Contains(content, "secret-arg") {
			t.Errorf("%s has an argument of a tenant's container", name)
		}
	}
	s, err := snapshot.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pod := range snapshot.Of[*corev1.Pod](s) {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"first", "second"}, names); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	complete := []bool{
		snapshot.Complete[*corev1.Pod](s), snapshot.Complete[*corev1.Node](s), snapshot.Complete[*corev1.PersistentVolumeClaim](s),
		snapshot.Complete[*stowage.PavProvisioner](s), snapshot.Complete[*corev1.Event](s), snapshot.Complete[*corev1.Service](s),
	}
	if diff := cmp.Diff([]bool{true, false, false, true, false, false}, complete); diff != "" {
		t.Errorf("complete are pods, nodes, claims, PavProvisioners, events, services (-want +got):\n%s", diff)
	}
	if snapshot.Served[*stowage.PavProvisioner](s) || s.Server == nil || s.Server.GitVersion != "v1.37.1" || s.Time.IsZero() || snapshot.Find[*corev1.PersistentVolumeClaim](s, "tenant", "data") == nil {
		t.Errorf("PavProvisioner served: %v; server %v; time %s; claims %v", snapshot.Served[*stowage.PavProvisioner](s), s.Server, s.Time, snapshot.Of[*corev1.PersistentVolumeClaim](s))
	}
}

// TestWriteWithoutServer: an API server that does not answer is an error.
func TestWriteWithoutServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := Write(t.Context(), &bytes.Buffer{}, Config{Connection: &rest.Config{Host: server.URL}, Progress: func(string) {}})
	if err == nil || !strings.Contains(err.Error(), "read the version of the API server at "+server.URL) {
		t.Errorf("error %v", err)
	}
}

// untar returns the files of an archive.
func untar(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for from := tar.NewReader(unzipped); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}
