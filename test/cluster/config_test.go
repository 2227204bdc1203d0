// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// present is a complete set of paths.
func present() Binaries {
	return Binaries{Etcd: "e", APIServer: "a", ControllerManager: "c", Scheduler: "s", Kwok: "k"}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Err                       string
		Accounts, Lifecycle, Runs bool
		Off                       []string
	}
	tests := map[string]struct {
		config Config
		want   outcome
	}{
		"the zero value has service accounts and leaves nodes alone": {
			config: Config{Binaries: present()},
			want:   outcome{Accounts: true, Runs: true, Off: []string{"TaintNodesByCondition"}},
		},
		"all controllers take care of the taints of new nodes": {
			config: Config{Binaries: present(), ControllerManager: ControllerManagerConfig{Controllers: AllControllers}},
			want:   outcome{Accounts: true, Lifecycle: true, Runs: true},
		},
		"all controllers but one": {
			config: Config{Binaries: present(), ControllerManager: ControllerManagerConfig{Controllers: []string{"*", "-serviceaccount-controller"}}},
			want:   outcome{Lifecycle: true, Runs: true},
		},
		"volume controllers alone": {
			config: Config{Binaries: present(), ControllerManager: ControllerManagerConfig{Controllers: VolumeControllers}},
			want:   outcome{Runs: true, Off: []string{"TaintNodesByCondition"}},
		},
		"the zero value without the PV controller": {
			config: Config{Binaries: present(), ControllerManager: ControllerManagerConfig{}.WithoutPVController()},
			want:   outcome{Accounts: true, Off: []string{"TaintNodesByCondition"}},
		},
		"all controllers without the PV controller": {
			config: Config{Binaries: present(), ControllerManager: ControllerManagerConfig{Controllers: AllControllers}.WithoutPVController()},
			want:   outcome{Accounts: true, Lifecycle: true},
		},
		"no controllers at all, and a plugin that is off twice": {
			config: Config{
				Binaries:          present(),
				ControllerManager: ControllerManagerConfig{Disabled: true},
				APIServer:         APIServerConfig{DisableAdmission: []string{"TaintNodesByCondition", "ServiceAccount"}},
			},
			want: outcome{Off: []string{"ServiceAccount", "TaintNodesByCondition"}},
		},
		"no binaries": {
			config: Config{Binaries: Binaries{Etcd: "e", APIServer: "a", ControllerManager: "c", Scheduler: "s"}},
			want:   outcome{Err: "Config.Binaries.Kwok is not set: use what Build returns"},
		},
		"an empty list of controllers": {
			config: Config{Binaries: present(), ControllerManager: ControllerManagerConfig{Controllers: []string{}}},
			want:   outcome{Err: "no controllers to run: set ControllerManager.Disabled instead of an empty list of Controllers"},
		},
		"two controllers in one": {
			config: Config{Binaries: present(), ControllerManager: ControllerManagerConfig{Controllers: []string{"a,b"}}},
			want:   outcome{Err: `ControllerManager.Controllers: "a,b" is not the name of one controller`},
		},
		"a negative limit": {
			config: Config{Binaries: present(), ControllerManager: ControllerManagerConfig{QPS: -1}},
			want:   outcome{Err: "ControllerManager.QPS (-1) and Burst (0) must not be negative"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got outcome
			if config, err := tc.config.complete(); err != nil {
				got.Err = err.Error()
			} else {
				got = outcome{
					Accounts:  config.hasServiceAccounts(),
					Lifecycle: config.ControllerManager.Runs(nodeLifecycleController),
					Runs:      config.ControllerManager.Runs(PVController),
					Off:       config.disabledAdmission(),
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeSet(t *testing.T) {
	t.Parallel()
	set := NodeSet{
		Prefix: "big", Count: 3, Zones: []string{"a", "b"}, Labels: map[string]string{"disk": "ssd"},
	}
	var got []string
	nodes := set.Nodes()
	for _, n := range nodes {
		got = append(got, fmt.Sprint(n.Name, " ", n.Labels[corev1.LabelHostname], " ", n.Labels[corev1.LabelTopologyZone], " ",
			n.Labels["disk"], " ", n.Status.Allocatable.Cpu(), " ", n.Status.Capacity.Memory()))
	}
	want := []string{"big-0 big-0 a ssd 32 256Gi", "big-1 big-1 b ssd 32 256Gi", "big-2 big-2 a ssd 32 256Gi"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	nodes[0].Labels["disk"] = "hdd"
	nodes[0].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1")
	if set.Labels["disk"] != "ssd" || nodes[0].Status.Capacity.Cpu().String() != "32" {
		t.Error("a node shares memory with its set or with itself")
	}
}

func TestReservedPort(t *testing.T) {
	t.Parallel()
	p, err := reservePort(loopback)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(p.url(), "https://")
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting to a reservation: %v, want it refused", err)
	}
	if l, err := net.Listen("tcp", address); err == nil {
		t.Errorf("another process takes the port: %v", l.Close())
	}
	p.release()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("listen on the released port: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestSchedulerConfig(t *testing.T) {
	t.Parallel()
	const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	tests := map[string]struct{ given, want string }{
		"none":                      {given: "", want: header + "clientConnection: {kubeconfig: K}"},
		"other settings stay":       {given: header + "parallelism: 4", want: header + "parallelism: 4\nclientConnection: {kubeconfig: K}"},
		"other connection settings": {given: header + "clientConnection: {qps: 7}", want: header + "clientConnection: {kubeconfig: K, qps: 7}"},
		"an own kubeconfig wins":    {given: header + "clientConnection: {kubeconfig: own}", want: header + "clientConnection: {kubeconfig: own}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := writeSchedulerConfig(path, []byte(tc.given), "K"); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var want, got map[string]any
			if err := errors.Join(yaml.Unmarshal([]byte(tc.want), &want), yaml.Unmarshal(data, &got)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text  string
		lines int
		limit int64
		want  string
	}{
		"all of a short file":         {text: "one\ntwo\n", lines: 5, limit: 100, want: "one\ntwo"},
		"the last lines of a longer":  {text: "one\ntwo\nthree\n", lines: 2, limit: 100, want: "two\nthree"},
		"without a final line break":  {text: "one\ntwo", lines: 1, limit: 100, want: "two"},
		"the last bytes of long ones": {text: strings.Repeat("x", 50) + "end", lines: 2, limit: 5, want: "xxend"},
		"an empty file":               {lines: 2, limit: 100},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := tail(path, tc.lines, tc.limit)
			if err != nil || got != tc.want {
				t.Errorf("tail is %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestProcessThatServesNothing(t *testing.T) {
	t.Parallel()
	p := &Process{name: "silent"}
	if _, err := p.Get(t.Context(), "/metrics"); err == nil {
		t.Error("it answers")
	}
	if p.base != (endpoint{}) || p.base.client != (*http.Client)(nil) {
		t.Error("it has an address")
	}
}

func TestFolderTooDeep(t *testing.T) {
	t.Parallel()
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", maxFolder))
	if err := os.Mkdir(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := newFolder(deep); err == nil || !strings.Contains(err.Error(), "use a shorter Dir") {
		t.Errorf("error %v, want one that requests a shorter Dir", err)
	}
	if left, err := os.ReadDir(deep); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
