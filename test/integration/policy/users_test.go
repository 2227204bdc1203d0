// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// nodeNameKey is the key under which the API server stores the node of a pod's token.
const nodeNameKey = "authentication.kubernetes.io/node-name"

var (
	reportResource = schema.GroupVersionResource{Group: "stowage.dev", Version: "v1alpha1", Resource: "localdiskreports"}
	diskResource   = schema.GroupVersionResource{Group: "stowage.dev", Version: "v1alpha1", Resource: "localdisks"}
)

// user is a client of the API server under one name.
type user struct {
	kubernetes.Interface
	dynamic dynamic.Interface
	http    *http.Client
}

func newUser(config *rest.Config) (*user, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	u := &user{http: client}
	if u.Interface, err = kubernetes.NewForConfigAndClient(config, client); err != nil {
		return nil, err
	}
	u.dynamic, err = dynamic.NewForConfigAndClient(config, client)
	return u, err
}

func (u *user) close() {
	if u != nil {
		u.http.CloseIdleConnections()
	}
}

// reports is the client for LocalDiskReports.
func (u *user) reports() dynamic.ResourceInterface { return u.dynamic.Resource(reportResource) }

// disks is the client for LocalDisks.
func (u *user) disks() dynamic.ResourceInterface { return u.dynamic.Resource(diskResource) }

// login requests a token of the provisioners' service account, as kubelet does for a
// pod; without a pod the token is not bound.
func (b *env) login(ctx context.Context, pod *corev1.Pod) (*user, error) {
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	answer, err := b.admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(b.cluster.RESTConfig())
	config.BearerToken = answer.Status.Token
	return newUser(config)
}

// impersonate makes a user with all rights of RBAC. node is what its token
// would name; empty for none.
func (b *env) impersonate(name, node string) (*user, error) {
	config := b.cluster.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}
	if node != "" {
		config.Impersonate.Extra = map[string][]string{nodeNameKey: {node}}
	}
	return newUser(config)
}
