// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/localdisk/migrate"
	"stowage.dev/stowage/pkg/localdisk/migrate/tool"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/commands"
)

// apiServer answers each request after a delay, and rejects writes of some volumes.
type apiServer struct {
	volumes []corev1.PersistentVolume
	takes   time.Duration
	refused []string
}

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(s.takes) //nolint:forbidigo // the bubble's time
	status, body := http.StatusOK, any(&corev1.PersistentVolumeList{})
	switch name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; {
	case r.Method != http.MethodGet:
		body = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, refused := range s.refused {
			if refused == name {
				status = http.StatusForbidden
			}
		}
	case name == "persistentvolumes":
		body = &corev1.PersistentVolumeList{Items: s.volumes}
	}
	data, err := json.Marshal(body)
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, err
}

// freeVolume is a volume of node a's provisioner without a claim.
func freeVolume(name string) *corev1.PersistentVolume {
	pv := builders.MakePV(name).Class("fast").Hostname("a").Phase(corev1.VolumeAvailable).Label(wellknown.NodeLabel, localpv.NodeHash("a")).
		Annotation(wellknown.NodeNameAnnotation, "a").ProvisionedBy(localpv.ProvisionedBy("a")).
		Source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/fast/" + name}}).Obj()
	pv.Finalizers = []string{wellknown.LocalVolumeFinalizer}
	return pv
}

// TestUninstall: the command selects the volumes of all nodes, and those without a claim are deleted.
func TestUninstall(t *testing.T) {
	api := &apiServer{volumes: []corev1.PersistentVolume{*freeVolume("v")}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := api.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.StatusCode)
		if _, err := io.Copy(w, answer.Body); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := commands.Output(t, newUninstallCommand(), "--kubeconfig="+kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"as published  release and delete\n", "1 to release, 0 of them", "Nothing was changed."} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
	if _, err := commands.Output(t, newUninstallCommand(), "--all"); err == nil || !strings.Contains(err.Error(), "unknown flag: --all") {
		t.Errorf("error %v", err)
	}
}

// TestReleaseOfMany: with the default flags, the volumes of many nodes are released within the
// timeouts of Helm and the Job.
func TestReleaseOfMany(t *testing.T) {
	const volumes, answer, most = 2000, 10 * time.Millisecond, 25 * time.Second
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{takes: answer, refused: []string{"v-0300", "v-0007", "v-1999"}}
		for i := range volumes {
			server.volumes = append(server.volumes, *freeVolume(fmt.Sprintf("v-%04d", i)))
		}
		flags := newUninstallCommand().Flags()
		qps, err := flags.GetFloat32("kube-api-qps")
		if err != nil {
			t.Fatal(err)
		}
		burst, err := flags.GetInt("kube-api-burst")
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api.example", QPS: qps, Burst: burst, Transport: server})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var log bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&log)
		cmd.SetErr(&log)
		release := tool.Release{ReleaseOptions: migrate.ReleaseOptions{All: true, Withdraw: true}, Confirm: true}
		err = release.Run(t.Context(), client, logOutput(cmd))
		out := log.String()
		if want := "3 of 2000 volumes could not be written"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		for _, want := range []string{"2000 to release", "Released 1997."} {
			if !strings.Contains(out, want) {
				t.Errorf("it does not print %q:\n%s", want, out)
			}
		}
		if took := time.Since(begin); took > most {
			t.Errorf("%d volumes took %v, want at most %v", volumes, took, most)
		}
		if first, last := strings.Index(out, "v-0007: patch"), strings.Index(out, "v-1999: patch"); first < 0 || last < first {
			t.Errorf("the refusals are not in the order of volumes: %d, %d", first, last)
		}
	})
}
