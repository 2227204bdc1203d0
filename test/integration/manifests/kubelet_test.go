// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"

	"stowage.dev/stowage/test/cluster"
)

// kubelet acts as the kubelets of all nodes, as far as an API server can observe:
// it reports pods as running, and removes those that are deleted. It really runs the pod that
// releases volumes, with that pod's service account.
type kubelet struct {
	t           *testing.T
	cluster     *cluster.Cluster
	provisioner string // the command
	running     sync.WaitGroup
	// broken makes pods of Jobs fail, after their command.
	broken atomic.Bool

	mu sync.Mutex
	// started are pods of Jobs, by UID; printed is their output, by pod.
	started map[types.UID]bool
	printed map[string]string
}

// startKubelet works until the test ends.
func startKubelet(t *testing.T, c *cluster.Cluster, provisioner string) *kubelet {
	t.Helper()
	k := &kubelet{t: t, cluster: c, provisioner: provisioner, started: map[types.UID]bool{}, printed: map[string]string{}}
	factory := informers.NewSharedInformerFactory(c.Client(), 0)
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.sync(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { k.sync(o.(*corev1.Pod)) },
	}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		k.running.Wait()
	})
	return k
}

// sync handles a change of a pod.
func (k *kubelet) sync(pod *corev1.Pod) {
	ctx := context.Background()
	switch {
	case pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
	case pod.DeletionTimestamp != nil:
		now := int64(0)
		k.write("end pod "+pod.Name, func() error {
			return k.cluster.Client().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		})
	case pod.Labels["job-name"] != "":
		k.mu.Lock()
		defer k.mu.Unlock()
		if !k.started[pod.UID] {
			k.started[pod.UID] = true
			k.running.Go(func() { k.run(ctx, pod) })
		}
	case pod.Status.Phase == corev1.PodPending:
		if image := pod.Spec.Containers[0].Image; strings.Contains(image, "scheduler") && !strings.HasSuffix(image, ":"+schedulerTag(minor())) {
			k.t.Errorf("pod %s has image %s on Kubernetes %s", pod.Name, image, minor())
		}
		k.report(ctx, pod, corev1.PodRunning)
	}
}

// report writes a pod's phase.
func (k *kubelet) report(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) {
	ready := corev1.ConditionFalse
	if phase == corev1.PodRunning {
		ready = corev1.ConditionTrue
	}
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()},
	}}})
	if err != nil {
		k.t.Errorf("report pod %s: %v", pod.Name, err)
		return
	}
	k.write("report pod "+pod.Name, func() error {
		_, err := k.cluster.Client().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// write tries again as a kubelet does: no other event may come.
func (k *kubelet) write(what string, request func() error) {
	err := retry.OnError(retry.DefaultBackoff, func(err error) bool { return !apierrors.IsNotFound(err) }, request)
	if err != nil && !apierrors.IsNotFound(err) {
		k.t.Errorf("%s: %v", what, err)
	}
}

// run runs the command of a Job's pod, with its arguments and its rights.
func (k *kubelet) run(ctx context.Context, pod *corev1.Pod) {
	phase := corev1.PodSucceeded
	out, err := k.execute(ctx, pod)
	if err == nil && k.broken.Load() {
		err = errors.New("broken for the test")
		k.write("have no further pod for "+pod.Name, func() error { // the Job would wait 70 s for three
			_, err := k.cluster.Client().BatchV1().Jobs(pod.Namespace).Patch(ctx, pod.Labels["job-name"], types.MergePatchType, []byte(`{"spec":{"backoffLimit":0}}`), metav1.PatchOptions{})
			return err
		})
	}
	k.mu.Lock()
	k.printed[pod.Namespace+"/"+pod.Labels["job-name"]] = out
	k.mu.Unlock()
	if err != nil {
		phase = corev1.PodFailed
		k.t.Logf("pod %s: %v\n%s", pod.Name, err, out)
	}
	k.report(ctx, pod, phase)
}

func (k *kubelet) execute(ctx context.Context, pod *corev1.Pod) (string, error) {
	container := pod.Spec.Containers[0]
	if container.Image != "stowage.dev/stowage-provisioner:dev" {
		return "", fmt.Errorf("image %s", container.Image)
	}
	kubeconfig, err := k.login(ctx, pod)
	if err != nil {
		return "", err
	}
	// The one thing that is different: where the service account's token is.
	args := slices.Concat(container.Args, []string{"--kubeconfig", kubeconfig})
	out, err := exec.CommandContext(ctx, k.provisioner, args...).CombinedOutput()
	return string(out), err
}

// login writes a kubeconfig with a token of the pod.
func (k *kubelet) login(ctx context.Context, pod *corev1.Pod) (string, error) {
	token, err := k.cluster.Client().CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	anonymous := rest.AnonymousClientConfig(k.cluster.RESTConfig())
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: anonymous.Host, CertificateAuthority: k.cluster.CAFile()}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	path := k.t.TempDir() + "/kubeconfig"
	return path, clientcmd.WriteToFile(*config, path)
}

// output is a Job's output.
func (k *kubelet) output(job string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.printed[job]
}
