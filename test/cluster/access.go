// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// adminUser and adminGroup may do everything; the group is exempt from the API
// server's priority and fairness as well.
const (
	adminUser  = "stowage-admin"
	adminGroup = "system:masters"
)

// identity is a user known to the API server by a client certificate.
type identity struct {
	pair       keyPair
	kubeconfig string // path
}

// Client talks to the API server as an administrator, in protobuf and without a
// client-side rate limit.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// RESTConfig is the configuration of Client. Each call returns a copy; set
// ContentType to JSON for custom resources.
func (c *Cluster) RESTConfig() *rest.Config { return c.restConfig(c.admin.pair) }

// Kubeconfig is the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.admin.kubeconfig }

// URL of the API server, https:// with an address, 127.0.0.1 unless the cluster
// has a network, and a port that is stable across restarts.
func (c *Cluster) URL() string { return c.apiPort.url() }

// CAFile is the path of the certificate authority that all servers of the
// cluster show certificates of.
func (c *Cluster) CAFile() string { return c.folder.caCert() }

// KubeconfigFor returns the path of a kubeconfig with a client certificate for
// a user in groups, such as "system:kube-scheduler". What the user may do is up
// to RBAC. For a service account it is user "system:serviceaccount:NS:NAME".
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	id, err := c.identity(user, groups...)
	return id.kubeconfig, err
}

// RESTConfigFor is RESTConfig for a user in groups; see KubeconfigFor.
func (c *Cluster) RESTConfigFor(user string, groups ...string) (*rest.Config, error) {
	id, err := c.identity(user, groups...)
	if err != nil {
		return nil, err
	}
	return c.restConfig(id.pair), nil
}

// ServingCertificate issues a certificate of the cluster's CA to a server, valid
// for hosts, which are DNS names and IP addresses, and returns it with its key,
// both PEM encoded.
func (c *Cluster) ServingCertificate(name string, hosts ...string) (cert, key []byte, err error) {
	pair, err := c.ca.server(name, hosts...)
	return pair.cert, pair.key, err
}

func (c *Cluster) restConfig(pair keyPair) *rest.Config {
	return &rest.Config{
		Host: c.URL(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.ca.pem,
			CertData: pair.cert,
			KeyData:  pair.key,
		},
		ContentConfig: rest.ContentConfig{
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		},
		QPS:       -1,
		UserAgent: "stowage-test",
	}
}

// identity issues a certificate for user in groups, once.
func (c *Cluster) identity(user string, groups ...string) (identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := strings.Join(append([]string{user}, groups...), "\x00")
	if id, ok := c.identities[key]; ok {
		return id, nil
	}
	pair, err := c.ca.client(user, groups...)
	if err != nil {
		return identity{}, err
	}
	id := identity{pair: pair, kubeconfig: c.folder.path(fmt.Sprintf("%s-%d.kubeconfig", fileName(user), len(c.identities)))}
	if err := c.writeKubeconfig(id.kubeconfig, clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}); err != nil {
		return identity{}, fmt.Errorf("write a kubeconfig for %q: %w", user, err)
	}
	c.identities[key] = id
	return id, nil
}

// WritePodKubeconfig writes a kubeconfig with the token that kubelet would give to a pod. The
// token names the pod and its node, and ends with the pod.
func (c *Cluster) WritePodKubeconfig(ctx context.Context, pod *corev1.Pod, path string) error {
	answer, err := c.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID,
		}},
	}, metav1.CreateOptions{})
	if err == nil {
		err = c.writeKubeconfig(path, clientcmdapi.AuthInfo{Token: answer.Status.Token})
	}
	if err != nil {
		return fmt.Errorf("write a kubeconfig for pod %s: %w", pod.Name, err)
	}
	return nil
}

func (c *Cluster) writeKubeconfig(path string, user clientcmdapi.AuthInfo) error {
	const name = "stowage"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.ca.pem}
	config.AuthInfos[name] = &user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}

var notFileName = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

// fileName makes a user's or component's name fit for a file.
func fileName(name string) string { return notFileName.ReplaceAllString(name, "-") }
