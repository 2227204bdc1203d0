// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/install"
)

// scheduler is a scheduler of the control plane: a static pod on the host network of a node,
// with the files of a folder of the node, as kubeadm's are.
type scheduler struct {
	node    string
	image   string
	command []string
	// files of /etc/kubernetes in addition to scheduler.conf, which is kube-scheduler's credentials.
	files map[string][]byte
}

// run starts the scheduler.
func (s scheduler) run(ctx context.Context, c *realnode.Cluster) error {
	kubeconfig, err := c.KubeconfigFor(cluster.SchedulerUser)
	if err != nil {
		return err
	}
	data := map[string][]byte{}
	if data["scheduler.conf"], err = os.ReadFile(kubeconfig); err != nil {
		return err
	}
	maps.Copy(data, s.files)
	node := c.Node(s.node)
	for name, content := range data {
		file := filepath.Join("/etc/kubernetes", name)
		if _, err := node.Run(ctx, nil, "mkdir", "-p", filepath.Dir(file)); err != nil {
			return err
		}
		if _, err := node.Run(ctx, strings.NewReader(string(content)), "tee", file); err != nil {
			return err
		}
	}
	_, err = c.Client().CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, s.pod(), metav1.CreateOptions{})
	return err
}

func (s scheduler) pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler", Namespace: metav1.NamespaceSystem},
		Spec: corev1.PodSpec{
			NodeName: s.node, HostNetwork: true, PriorityClassName: "system-node-critical",
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "kube-scheduler", Image: s.image,
				Command:      s.command,
				VolumeMounts: []corev1.VolumeMount{{Name: "etc", MountPath: "/etc/kubernetes", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "etc", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/etc/kubernetes"},
			}}},
		},
	}
}

// schedulerArgs are kubeadm's, except for the configuration.
func schedulerArgs(binary, config string) []string {
	const credentials = "/etc/kubernetes/scheduler.conf"
	return []string{
		binary, "--config=" + config, "--authentication-kubeconfig=" + credentials, "--authorization-kubeconfig=" + credentials,
	}
}

// ourManifests is where the manifests are, from here.
const ourManifests = "../../manifests/"

// manifest reads a file of manifests.
func manifest(name string) ([]byte, error) {
	data, err := os.ReadFile(ourManifests + name)
	if err != nil {
		return nil, fmt.Errorf("read a manifest: %w", err)
	}
	return data, nil
}

// runOurs runs stowage-scheduler instead of kube-scheduler, as manifests/scheduler/only
// describes.
func runOurs(ctx context.Context, c *realnode.Cluster) error {
	config, err := manifest("scheduler/only/config.yaml")
	if err != nil {
		return err
	}
	// The rights first: without them it leaves bindings to the PV controller.
	if _, err := c.Kubectl(ctx, "apply", "--server-side", "-k", ourManifests+"scheduler/only"); err != nil {
		return err
	}
	tag, err := install.ImageTag("stowage-scheduler", "dev")
	if err != nil {
		return err
	}
	return scheduler{
		node: "one", image: "stowage.dev/stowage-scheduler:" + tag,
		command: schedulerArgs("/usr/local/bin/stowage-scheduler", "/etc/kubernetes/stowage-scheduler.yaml"),
		files:   map[string][]byte{"stowage-scheduler.yaml": config},
	}.run(ctx, c)
}
