// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/localdisk/migrate"
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

// TestReleaseOfMany: with the default flags, the volumes of many nodes are released within the
// timeouts of Helm and the Job.
func TestReleaseOfMany(t *testing.T) {
	const volumes, answer, most = 2000, 10 * time.Millisecond, 25 * time.Second
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{takes: answer, refused: []string{"v-0300", "v-0007", "v-1999"}}
		for i := range volumes {
			free := ownVolume(fmt.Sprintf("v-%04d", i), corev1.VolumeAvailable)
			free.Spec.ClaimRef = nil
			server.volumes = append(server.volumes, *free)
		}
		flags, o := newReleaseCommand().Flags(), releaseOptions{ReleaseOptions: migrate.ReleaseOptions{All: true, Withdraw: true}, confirm: true}
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
		out, err := run(t, against(client, newReleaseCommand(), o.run))
		check(t, out, err, []string{"2000 to release", "Released 1997."}, "3 of 2000 volumes could not be written")
		if took := time.Since(begin); took > most {
			t.Errorf("%d volumes took %v, want at most %v", volumes, took, most)
		}
		if first, last := strings.Index(out, "v-0007: patch"), strings.Index(out, "v-1999: patch"); first < 0 || last < first {
			t.Errorf("the refusals are not in the order of volumes: %d, %d", first, last)
		}
	})
}

// TestEachVolumeBrokenOff: running calls end, no more start, and successes are counted.
func TestEachVolumeBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetErr(&out)
	all := make([]int, 1000)
	for i := range all {
		all[i] = i
	}
	done, err := eachVolume(cmd, all, func(ctx context.Context, i *int) (string, error) {
		switch {
		case *i < 100:
			return strconv.Itoa(*i), nil
		case *i == 100:
			cancel()
		}
		<-ctx.Done()
		return strconv.Itoa(*i), ctx.Err()
	})
	if err == nil || !strings.Contains(err.Error(), "interrupted after 100 of 1000 volumes") || done != 100 {
		t.Errorf("done %d, error %v", done, err)
	}
	if out.Len() > 0 {
		t.Errorf("it reports volumes that were not tried: %s", &out)
	}
}
