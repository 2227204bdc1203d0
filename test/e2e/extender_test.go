// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// extenderHost is the extender's name in its certificate.
const extenderHost = "stowage-extender.kube-system.svc"

// extended is a cluster whose only scheduler is the stock one, with the extender in mode Full.
var extended = frame.NewSite(install.Options(withExtender("full")))

// withExtender is the installation of such a cluster. mode is the folder of manifests/extender.
func withExtender(mode string) install.Config {
	return install.Config{
		Folders: []string{"crd", "provisioner", "extender/" + mode},
		Parts:   []string{"provisioner", "extender"},
		Nodes:   []realnode.NodeSpec{frame.Node("one"), frame.Node("two")},
		Classes: []install.Class{class("pairs", nil)},
		Cluster: func(c *realnode.Config) { c.NoScheduler = true },
		Before: func(ctx context.Context, c *realnode.Cluster) error {
			if err := giveCertificates(ctx, c); err != nil {
				return err
			}
			return runExtended(ctx, c, mode)
		},
	}
}

// TestExtender: stock kube-scheduler calls the extender, which binds the claims and the pod.
func TestExtender(t *testing.T) {
	needsPolicies(t)
	extended.Parallel(t)
	e := extended.New(t)
	e.Kubectl("--namespace=kube-system", "wait", "--for=jsonpath={.status.readyReplicas}=1", "deployment/stowage-extender", "--timeout=5m")
	plugPair(e)
	writeRead(e, "pairs", "two")
	onlyClaimsAreMarked(e)
}

// plugPair puts two disks of class pairs into node two, of which one is small.
func plugPair(e *frame.Env) {
	e.T.Helper()
	plug(e, "two", realnode.Disk{Kind: realnode.Ext4, Path: slot("pairs", "small"), Size: 16 << 20},
		realnode.Disk{Kind: realnode.Ext4, Path: slot("pairs", "large"), Size: 64 << 20})
	published(e, "two", slot("pairs", "small"))
	published(e, "two", slot("pairs", "large"))
}

// onlyClaimsAreMarked checks that a pod without claims runs, and one with claims is marked for the
// extender.
func onlyClaimsAreMarked(e *frame.Env) {
	e.T.Helper()
	if got, _ := finish(e, e.Shell("plain", "echo ran")); got != "ran\n" {
		e.T.Errorf("a pod without claims printed %q", got)
	}
	pod, err := e.Client.CoreV1().Pods(e.Namespace).Create(e.Context, e.Shell("marked", "true", "any"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	e.Do(err)
	if mark := pod.Spec.Containers[0].Resources.Limits["stowage.dev/volumes"]; mark.Value() != 1 {
		e.T.Error("a pod with claims has no stowage.dev/volumes, for which kube-scheduler calls the extender")
	}
}

// giveCertificates creates the Secrets that administrators provide: the extender's certificate, and
// the authority that signs the scheduler's, which here is the cluster's.
func giveCertificates(ctx context.Context, c *realnode.Cluster) error {
	cert, key, err := c.ServingCertificate("stowage-extender", extenderHost)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(c.CAFile())
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "stowage-extender-serving"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key},
	}
	if _, err := c.Client().CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	clients := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stowage-extender-clients"}, Data: map[string]string{"ca.crt": string(ca)}}
	_, err = c.Client().CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, clients, metav1.CreateOptions{})
	return err
}

// runExtended runs the stock kube-scheduler in a pod, with the configuration of the manifests.
// The only change is the one that they require: the Service's address instead of its name.
func runExtended(ctx context.Context, c *realnode.Cluster, mode string) error {
	if _, err := c.Kubectl(ctx, "apply", "--server-side", "-k", ourManifests+"extender/"+mode); err != nil {
		return err
	}
	service, err := c.Client().CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "stowage-extender", metav1.GetOptions{})
	if err != nil {
		return err
	}
	file := "extender/" + mode + "/scheduler.yaml"
	config, err := manifest(file)
	if err != nil {
		return err
	}
	url := "urlPrefix: https://" + extenderHost
	if !bytes.Contains(config, []byte(url)) {
		return fmt.Errorf("%s has no %q", file, url)
	}
	user, err := c.RESTConfigFor(cluster.SchedulerUser)
	if err != nil {
		return err
	}
	image, err := importStock(ctx, c, "one")
	if err != nil {
		return err
	}
	return scheduler{
		node: "one", image: image,
		command: schedulerArgs("/bin/kube-scheduler", "/etc/kubernetes/stowage-extender/scheduler.yaml"),
		files: map[string][]byte{
			"stowage-extender/scheduler.yaml": []byte(strings.Replace(string(config), url, "urlPrefix: https://"+service.Spec.ClusterIP, 1)),
			"stowage-extender/ca.crt":         user.CAData,
			"stowage-extender/client.crt":     user.CertData,
			"stowage-extender/client.key":     user.KeyData,
		},
	}.run(ctx, c)
}

// importStock imports an image of the stock kube-scheduler on a node, and returns the image's name.
func importStock(ctx context.Context, c *realnode.Cluster, node string) (string, error) {
	binary := frame.Binaries().Cluster.Scheduler
	image := realnode.Image{Reference: "stowage.dev/test/kube-scheduler:dev", Files: map[string]string{"/bin/kube-scheduler": binary}}
	// It may be linked with the machine's C library.
	libraries, err := exec.CommandContext(ctx, "ldd", binary).Output()
	var static *exec.ExitError
	if err != nil && !errors.As(err, &static) {
		return "", err
	}
	for path := range strings.FieldsSeq(string(libraries)) {
		if filepath.IsAbs(path) {
			image.Files[path] = path
		}
	}
	archive := filepath.Join(c.Folder(), "kube-scheduler.tar")
	if err := image.Write(archive); err != nil {
		return "", err
	}
	return image.Reference, c.Node(node).Import(ctx, archive)
}
