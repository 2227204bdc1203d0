// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestComponentsComeAndGo(t *testing.T) {
	ctx := scenario(t)
	c := ownCluster(ctx, t, Config{})
	t.Run("the PV controller", func(t *testing.T) { takePVController(ctx, t, c) })
	t.Run("kube-apiserver", func(t *testing.T) { takeAPIServer(ctx, t, c) })
	t.Run("kwok", func(t *testing.T) { takeKwok(ctx, t, c) })
	t.Run("a scheduler that hangs", func(t *testing.T) { hangScheduler(ctx, t, c) })
	select {
	case err := <-c.Failed():
		t.Errorf("all ends were expected, but Failed sent: %v", err)
	default:
	}
	t.Run("a crash is reported", func(t *testing.T) { crash(ctx, t, c) })
}

func takePVController(ctx context.Context, t *testing.T, c *Cluster) {
	if err := c.ControllerManager().Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if c.ControllerManager().Running() {
		t.Fatal("it runs after it was stopped")
	}
	pv := localVolume("orphan", "none", "nowhere")
	pv = must[*corev1.PersistentVolume](t)(c.Client().CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}))
	if pv.Status.Phase != corev1.VolumePending {
		t.Errorf("a new volume is %s, want Pending", pv.Status.Phase)
	}
	if err := c.ControllerManager().Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.ControllerManager().Start(ctx); err == nil {
		t.Error("it starts a second time")
	}
	waitFor(ctx, t, c.core("persistentvolumes", "", pv.Name), func(pv *corev1.PersistentVolume) bool {
		return pv.Status.Phase == corev1.VolumeAvailable
	})
}

func takeAPIServer(ctx context.Context, t *testing.T, c *Cluster) {
	ns := namespace(ctx, t, c)
	before, url := c.APIServer().Process(), c.URL()
	if err := c.APIServer().Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client().CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a request to a stopped API server: %v, want it refused", err)
	}
	if err := c.APIServer().Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.APIServer().Restart(ctx); err != nil {
		t.Fatal(err)
	}
	after := c.APIServer().Process()
	if before.PID() == after.PID() || after.base.url != url {
		t.Errorf("pid %d and %s became %d and %s, want another process on the same port", before.PID(), url, after.PID(), after.base.url)
	}
	must[*corev1.Namespace](t)(c.Client().CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}))
}

func takeKwok(ctx context.Context, t *testing.T, c *Cluster) {
	if err := c.Kwok().Kill(); err != nil {
		t.Fatal(err)
	}
	nodes := NodeSet{Prefix: "kwok", Count: 1}.Nodes()
	if err := c.AddNodes(ctx, nodes...); err == nil || !strings.Contains(err.Error(), "kwok") {
		t.Errorf("adding nodes without kwok: %v, want an error that names it", err)
	}
	if err := c.Kwok().Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.AddNodes(ctx, nodes...); err != nil {
		t.Error(err)
	}
}

func hangScheduler(ctx context.Context, t *testing.T, c *Cluster) {
	p := scheduler(ctx, t, c, SchedulerOptions{Name: "hangs"})
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitHealthy(ctx); err != nil {
		t.Errorf("after it continued: %v", err)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(canceled(t)); err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("stop a process that hangs: %v, want it killed", err)
	}
}

func crash(ctx context.Context, t *testing.T, c *Cluster) {
	p := c.Kwok().Process()
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-c.Failed():
		if want := "kwok ended: signal: killed; "; !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), p.LogFile()) {
			t.Errorf("error %q, want it to begin %q and to name the log %s", err, want, p.LogFile())
		}
	case <-ctx.Done():
		t.Fatal("Failed reports no crash")
	}
	if err := p.WaitHealthy(ctx); err == nil {
		t.Error("a process that has ended is healthy")
	}
}

func TestStartFails(t *testing.T) {
	ctx := scenario(t)
	missing := fixture.binaries
	missing.Etcd += "-missing"
	broken := fixture.binaries
	broken.Kwok = broken.Etcd // takes no such flags
	tests := map[string]struct {
		config Config
		want   []string
	}{
		"a flag that is wrong": {
			config: Config{Binaries: fixture.binaries, APIServer: APIServerConfig{ExtraArgs: []string{"--no-such-flag"}}},
			want:   []string{"kube-apiserver ended: exit status 1", "unknown flag: --no-such-flag", "kube-apiserver.log"},
		},
		"a controller that does not exist": {
			config: Config{Binaries: fixture.binaries, ControllerManager: ControllerManagerConfig{Controllers: []string{"no-such-controller"}}},
			want:   []string{"kube-controller-manager ended: exit status 1", `no-such-controller\" is not in the list of known controllers`},
		},
		"a program that is not there": {
			config: Config{Binaries: missing},
			want:   []string{"start etcd", "no such file or directory"},
		},
		"a component without health endpoint": {
			config: Config{Binaries: broken},
			want:   []string{"kwok ended: exit status", "kwok.log"},
		},
	}
	for name, tc := range tests {
		tc.config.Dir = t.TempDir() // a subtest's own would be too deep for sockets
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Start(ctx, tc.config)
			if err == nil {
				t.Fatal("it starts", c.Stop())
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q: %v", want, err)
				}
			}
			kept, err := os.ReadDir(tc.config.Dir)
			if err != nil || len(kept) != 1 {
				t.Errorf("folders kept: %v, %v; want one", kept, err)
			}
		})
	}
}

func TestSchedulerFails(t *testing.T) {
	ctx, c := sharedCluster(t)
	_, err := c.StartHealthyScheduler(ctx, SchedulerOptions{Name: "fails", ConfigYAML: []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: Nonsense\n")})
	for _, want := range []string{" ended: exit status 1", `no kind \"Nonsense\"`, ".log"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

func TestWaitHealthyEndsWithItsContext(t *testing.T) {
	_, c := sharedCluster(t)
	p := must[*Process](t)(c.StartScheduler(SchedulerOptions{Name: "slow"}))
	t.Cleanup(func() { _ = p.Kill() })
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitHealthy(canceled(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
