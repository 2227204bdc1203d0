// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioners

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Login gets the provisioner the token that kubelet would give it, which names its node, and
// returns the name of the pod that it is bound to. The token ends with the pod.
func (p Process) Login(ctx context.Context) (pod string, err error) {
	bound, err := p.pod(ctx)
	if err != nil {
		return "", fmt.Errorf("create the provisioner's pod on %s: %w", p.Node, err)
	}
	answer, err := p.Cluster.Client().CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Pod", APIVersion: "v1", Name: bound.Name, UID: bound.UID,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return bound.Name, fmt.Errorf("get a token for pod %s: %w", bound.Name, err)
	}
	if err := p.writeKubeconfig(answer.Status.Token); err != nil {
		return bound.Name, fmt.Errorf("write the provisioner's kubeconfig: %w", err)
	}
	return bound.Name, nil
}

func (p Process) writeKubeconfig(token string) error {
	admin := rest.AnonymousClientConfig(p.Cluster.RESTConfig())
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthority: admin.CAFile, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	return clientcmd.WriteToFile(*config, p.path("kubeconfig"))
}
