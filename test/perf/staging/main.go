// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Staging measures what volumes of PavProvisioners cost on real kubelets, where the pod templates do
// next to nothing, beside pods with an emptyDir:
//
//	make bench-staging                          everything, stored in docs/benchmarks/staging.txt
//	make bench-staging ONLY=start PODS=10       a part
//
// It runs as root, in a folder two below the repository, as package install requires.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutils "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/pavclient"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/install"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
)

const (
	one, two  = "one", "two" // nodes
	namespace = "default"
	class     = "least"
)

// least is a provisioner whose pods do next to nothing.
const least = `
apiVersion: stowage.dev/v1alpha1
kind: PavProvisioner
metadata: {name: least}
spec:
  provisioningModes: [Dynamic]
  volumeCreation: {capacity: "{{ requestedMinCapacity }}"}
  volumeStaging:
    podTemplate:
      spec:
        restartPolicy: Never
        terminationGracePeriodSeconds: 1
        containers:
        - {name: stage, image: IMAGE, imagePullPolicy: Never, command: [mkdir, /pav/volume]}
`

// bench is a cluster of two nodes.
type bench struct {
	*realnode.Cluster
	clients *pavclient.Clients
}

func main() {
	b := &bench{}
	parts.Benchmark{
		Name: "bench-staging", Only: "ONLY",
		Numbers: []parts.Number{
			{Name: "pods", Usage: "pods that are started one after the other", Default: 20},
			{Name: "volumes", Usage: "volumes at once", Default: 100},
		},
		Open: b.open,
		Close: func() error {
			if b.Cluster == nil {
				return nil
			}
			return b.Stop()
		},
		Parts: []parts.Part{
			{Name: "start", Prefixes: []string{"Start", "End"}, Measure: b.start},
			{Name: "move", Prefixes: []string{"Move"}, Measure: b.move},
			{Name: "many", Prefixes: []string{"Many"}, Measure: b.many},
		},
	}.Main()
}

// open starts the cluster and installs what volumes need.
func (b *bench) open(ctx context.Context, _ *parts.Run) error {
	binaries, err := realnode.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
	if err != nil {
		return err
	}
	options, err := install.Options(install.Config{
		Folders: []string{"crd", "crd/pav", "controller", "csi"},
		Files:   []string{"provisioner/namespace.yaml", "provisioner/rbac.yaml", "controller/pav-volumes.yaml", "controller/pav-policy.yaml"},
		Parts:   []string{"controller", "pav-reporter", "csi"},
		Nodes:   []realnode.NodeSpec{{Name: one}, {Name: two}},
		Configs: map[string]string{install.Controller: `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
pavVolumes: {enabled: true, reporterImage: "stowage.dev/stowage-pav-reporter:dev"}
`},
	})()
	if err != nil {
		return err
	}
	config := realnode.Config{Binaries: binaries, Images: options.Images}
	if options.Config != nil {
		options.Config(&config)
	}
	if b.Cluster, err = realnode.Start(ctx, config); err != nil {
		return err
	}
	if err := options.Begin(ctx, b.Cluster); err != nil {
		return err
	}
	if b.clients, err = pavclient.New(b.RESTConfig()); err != nil {
		return err
	}
	return b.provide(ctx)
}

// provide makes the provisioner and its class.
func (b *bench) provide(ctx context.Context) error {
	p := &stowage.PavProvisioner{}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(least, "IMAGE", realnode.BusyboxImage)), p); err != nil {
		return err
	}
	if _, err := b.clients.Provisioners.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := b.Client().StorageV1().StorageClasses().Create(ctx, builders.MakeClass(class).Provisioner(p.Name).Immediate().Obj(), metav1.CreateOptions{})
	return err
}

// claim creates a claim and waits until it is bound. It returns the handle of its volume.
func (b *bench) claim(ctx context.Context, name string) (string, error) {
	claims := b.Client().CoreV1().PersistentVolumeClaims(namespace)
	if _, err := claims.Create(ctx, builders.MakePVC(name).Namespace(namespace).Class(class).Request("1").Obj(), metav1.CreateOptions{}); err != nil {
		return "", err
	}
	claim, err := await.Object(ctx, claims, name, func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
	if err != nil {
		return "", err
	}
	return claim.Spec.VolumeName, nil
}

// create creates a pod on a node with a claim, or with an emptyDir.
func (b *bench) create(ctx context.Context, name, node, claim string) error {
	volume := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	if claim != "" {
		volume.VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	}
	_, err := b.Client().CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)), DNSPolicy: corev1.DNSDefault,
			NodeSelector: map[string]string{corev1.LabelHostname: node},
			Volumes:      []corev1.Volume{volume},
			Containers: []corev1.Container{{
				Name: "main", Image: realnode.BusyboxImage, ImagePullPolicy: corev1.PullNever, Command: []string{"sleep", "100000"},
				VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/data"}},
			}},
		},
	}, metav1.CreateOptions{})
	return err
}

// ready waits until a pod is ready.
func (b *bench) ready(ctx context.Context, name string) error {
	_, err := await.Object(ctx, b.Client().CoreV1().Pods(namespace), name, func(p *corev1.Pod) bool { return podutils.IsPodReady(p) })
	return err
}

// gone deletes an object, such as pod/name, and waits until it is gone.
func (b *bench) gone(ctx context.Context, objects ...string) error {
	_, err := b.Kubectl(ctx, append([]string{"delete", "--wait"}, objects...)...)
	return err
}

// unstaged waits until a node does not have a volume.
func (b *bench) unstaged(ctx context.Context, handle, node string) error {
	_, err := b.Kubectl(ctx, "wait", "--for=delete", "--timeout=-1s", "pavstaging/"+stowage.PavStagingName(class, handle, node))
	return err
}

// start measures the time from the creation of a pod until it is ready, with an emptyDir and with a volume
// that is staged for it; and from its end until the volume is unstaged.
func (b *bench) start(ctx context.Context, r *parts.Run) (figures.Set, error) {
	times := map[string][]float64{}
	handle, err := b.claim(ctx, "start")
	if err != nil {
		return nil, err
	}
	n := r.Number("pods")
	for i := range n {
		parts.Progress("start, %d of %d done", i, n)
		for _, kind := range []string{"", "start"} {
			name := fmt.Sprintf("start-%d", i)
			begin := time.Now()
			if err := errors.Join(b.create(ctx, name, one, kind), b.ready(ctx, name)); err != nil {
				return nil, err
			}
			times[kind] = append(times[kind], time.Since(begin).Seconds())
			if err := b.gone(ctx, "pod/"+name); err != nil {
				return nil, err
			}
			if kind == "" {
				continue
			}
			begin = time.Now()
			if err := b.unstaged(ctx, handle, one); err != nil {
				return nil, err
			}
			times["end"] = append(times["end"], time.Since(begin).Seconds())
		}
	}
	return figures.Set{
		figures.Line("Start/volume=emptyDir", n, figures.Times(times[""])...),
		figures.Line("Start/volume=pav", n, figures.Times(times["start"])...),
		figures.Line("End/volume=pav", n, figures.Times(times["end"])...),
	}, b.gone(ctx, "pvc/start")
}

// move measures the time from the end of a pod until the next one, on another node, is ready.
func (b *bench) move(ctx context.Context, r *parts.Run) (figures.Set, error) {
	handle, err := b.claim(ctx, "move")
	if err != nil {
		return nil, err
	}
	var times []float64
	n := r.Number("pods")
	nodes := []string{one, two}
	if err := errors.Join(b.create(ctx, "move-0", one, "move"), b.ready(ctx, "move-0")); err != nil {
		return nil, err
	}
	for i := 1; i <= n; i++ {
		parts.Progress("move, %d of %d done", i-1, n)
		last, next := fmt.Sprintf("move-%d", i-1), fmt.Sprintf("move-%d", i)
		if err := errors.Join(b.gone(ctx, "pod/"+last), b.create(ctx, next, nodes[i%2], "move")); err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := b.ready(ctx, next); err != nil {
			return nil, err
		}
		times = append(times, time.Since(begin).Seconds())
	}
	if err := errors.Join(b.gone(ctx, fmt.Sprintf("pod/move-%d", n)), b.unstaged(ctx, handle, nodes[n%2])); err != nil {
		return nil, err
	}
	return figures.Set{figures.Line("Move/volume=pav", n, figures.Times(times)...)}, b.gone(ctx, "pvc/move")
}

// many measures how long it takes until pods with a volume each, which are created at once, are ready; the
// requests for PavStagings; and the memory of the node services.
func (b *bench) many(ctx context.Context, r *parts.Run) (figures.Set, error) {
	n := r.Number("volumes")
	for i := range n {
		if _, err := b.claim(ctx, fmt.Sprintf("many-%d", i)); err != nil {
			return nil, err
		}
	}
	before, err := b.requests(ctx)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	for i := range n {
		if err := b.create(ctx, fmt.Sprintf("many-%d", i), []string{one, two}[i%2], fmt.Sprintf("many-%d", i)); err != nil {
			return nil, err
		}
	}
	for i := range n {
		if i%10 == 0 {
			parts.Progress("many, %d of %d ready", i, n)
		}
		if err := b.ready(ctx, fmt.Sprintf("many-%d", i)); err != nil {
			return nil, err
		}
	}
	took := time.Since(begin).Seconds()
	after, err := b.requests(ctx)
	if err != nil {
		return nil, err
	}
	memory, err := b.memory(ctx)
	if err != nil {
		return nil, err
	}
	return figures.Set{figures.Line("Many/volume=pav", n,
		figures.Value{Value: took, Unit: "sec"},
		figures.Value{Value: (after - before) / float64(n), Unit: "requests/volume"},
		figures.Value{Value: memory, Unit: "bytes"})}, nil
}

var requestOf = regexp.MustCompile(`^apiserver_request_total\{.*resource="pavstagings".*verb="([A-Z]+)".*\} ([0-9.e+]+)$`)

// requests counts the requests for PavStagings so far, without watches.
func (b *bench) requests(ctx context.Context) (sum float64, err error) {
	out, err := b.Kubectl(ctx, "get", "--raw", "/metrics")
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(strings.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := requestOf.FindStringSubmatch(lines.Text()); m != nil && m[1] != "WATCH" {
			value, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return 0, err
			}
			sum += value
		}
	}
	return sum, lines.Err()
}

// memory returns the largest resident memory of a node service, in bytes.
func (b *bench) memory(ctx context.Context) (most float64, err error) {
	for _, node := range []string{one, two} {
		out, err := b.Node(node).Run(ctx, nil, "sh", "-c", `awk '/VmRSS/ { print $2 }' /proc/$(pgrep -o stowage-csi)/status`)
		if err != nil {
			return 0, err
		}
		kibibytes, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
		if err != nil {
			return 0, fmt.Errorf("memory of the node service of %s: %q: %w", node, out, err)
		}
		most = max(most, kibibytes*1024)
	}
	return most, nil
}
