// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/commands"
)

// metadataServer serves the metadata of nodes, and of pods of the namespace one. Namespaces are forbidden.
func metadataServer(t *testing.T) (url string) {
	t.Helper()
	names := map[string][]string{"/api/v1/nodes": {"node-b", "node-a", "other"}, "/api/v1/namespaces/one/pods": {"pod-a"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") || r.URL.Query().Get("limit") == "" {
			t.Errorf("%s requests whole objects, or has no limit", r.URL)
		}
		listed, found := names[r.URL.Path]
		if !found {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
		for _, name := range listed {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestCompletion(t *testing.T) {
	t.Setenv("KUBECONFIG", file(t, "kubeconfig", "apiVersion: v1\nkind: Config\ncontexts: [{name: east, context: {cluster: c}}, {name: west, context: {cluster: c}}]\n"))
	url := "--server=" + metadataServer(t)
	objects := "--from=" + file(t, "objects.yaml", `
kind: List
apiVersion: v1
items:
- {apiVersion: v1, kind: Node, metadata: {name: node-c}}
- {apiVersion: v1, kind: Pod, metadata: {name: pod-b, namespace: one}}
- {apiVersion: v1, kind: Pod, metadata: {name: pod-c, namespace: two}}
- {apiVersion: v1, kind: Namespace, metadata: {name: one}}
- {apiVersion: stowage.dev/v1alpha1, kind: LocalDisk, metadata: {name: node-c.00}}
`)
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"nodes of a cluster, by prefix":           {[]string{url, "release", "--node", "node-"}, []string{"node-a", "node-b"}},
		"nodes of files":                          {[]string{objects, "release", "--node", ""}, []string{"node-c"}},
		"pods of the namespace":                   {[]string{url, "-n", "one", "why", "pod", ""}, []string{"pod-a"}},
		"pods of the namespace in files":          {[]string{objects, "-n", "one", "why", "pod", "p"}, []string{"pod-b"}},
		"pods of a namespace that has none":       {[]string{objects, "-n", "three", "why", "pod", ""}, nil},
		"LocalDisks of files":                     {[]string{objects, "why", "disk", "node-"}, []string{"node-c.00"}},
		"namespaces that may not be listed":       {[]string{url, "release", "-n", ""}, nil},
		"namespaces of files":                     {[]string{objects, "release", "-n", ""}, []string{"one"}},
		"an API server that is away":              {[]string{"--server=http://127.0.0.1:1", "release", "--node", ""}, nil},
		"files that do not exist":                 {[]string{"--from=/does/not/exist", "release", "--node", ""}, nil},
		"contexts of the kubeconfig":              {[]string{"release", "--context", "w"}, []string{"west"}},
		"reasons, without a request to a cluster": {[]string{"acknowledge", "--reason", ""}, acknowledgeable()},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := commands.Output(t, newTestCommand(), append([]string{cobra.ShellCompRequestCmd}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out, "\n")
			var got []string
			for _, line := range lines {
				if strings.HasPrefix(line, ":") {
					break
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("completions (-want +got):\n%s\n%s", diff, out)
			}
		})
	}
}

// TestCompletionProgram: kubectl runs the program beside the plugin with the arguments of the plugin.
func TestCompletionProgram(t *testing.T) {
	program, err := filepath.Abs("../kubectl_complete-stowage")
	if err != nil {
		t.Fatal(err)
	}
	kubectl := file(t, "kubectl", "#!/bin/sh\nprintf '<%s>' \"$@\"\n")
	if err := os.Chmod(kubectl, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "release", "--node", "")
	cmd.Env = append(os.Environ(), fmt.Sprintf("PATH=%s:%s", filepath.Dir(kubectl), os.Getenv("PATH")))
	out, err := cmd.CombinedOutput()
	if want := "<stowage><__complete><release><--node><>"; err != nil || string(out) != want {
		t.Errorf("error %v, arguments %s, want %s", err, out, want)
	}
}
