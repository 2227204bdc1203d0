// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Names of the manifests.
const (
	systemNamespace = "stowage-system"
	account         = "stowage-provisioner"
	params          = "stowage-provisioner-nodes"
)

// allow lets provisioners create volumes of these classes, and of no others.
func (s *Site) allow(ctx context.Context, classes []string) error {
	patch := fmt.Sprintf(`{"data":{"classes":%q}}`, strings.Join(classes, ","))
	_, err := s.client.CoreV1().ConfigMaps(systemNamespace).Patch(ctx, params, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("let provisioners use classes: %w", err)
	}
	return nil
}

// login writes a kubeconfig with the token that kubelet would give to a node's provisioner.
func (s *Site) login(ctx context.Context, node, kubeconfig string) error {
	pod, err := s.client.CoreV1().Pods(systemNamespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: account + "-"},
		Spec: corev1.PodSpec{
			NodeName:           node,
			ServiceAccountName: account,
			Containers:         []corev1.Container{{Name: "provisioner", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the pod of a provisioner: %w", err)
	}
	answer, err := s.client.CoreV1().ServiceAccounts(systemNamespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("get the token of a provisioner: %w", err)
	}
	admin := rest.AnonymousClientConfig(s.cluster.RESTConfig())
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: answer.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	return clientcmd.WriteToFile(*config, kubeconfig)
}
