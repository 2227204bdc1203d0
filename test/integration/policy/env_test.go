// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/provisioners"
)

// The provisioner's manifests and the names in them.
const (
	manifests = "../../../manifests/provisioner"
	namespace = "stowage-system"
	account   = "stowage-provisioner"
	params    = "stowage-provisioner-nodes"
	class     = "local-disks"
	taintKey  = "stowage.dev/provisioner-not-ready"
)

// The nodes. Gamma's hostname label is not its name, and the parameters say so.
const (
	alpha = "alpha"
	beta  = "beta"
	gamma = "gamma.example.com"

	gammaHost = "gamma"
)

// env is a cluster with the manifests applied, three nodes, and the provisioners'
// clients.
type env struct {
	cluster *cluster.Cluster
	admin   *user
	// provisioners have the tokens of pods, by node. unbound has a token of the same
	// service account that belongs to no pod.
	provisioners map[string]*user
	unbound      *user
	// privileged are provisioners with all rights of RBAC.
	privileged map[string]*user
	// others may do everything too, under a name that the policies do not know.
	others *user
}

func newEnv(ctx context.Context, c *cluster.Cluster) (*env, error) {
	b := &env{cluster: c, provisioners: map[string]*user{}, privileged: map[string]*user{}}
	var err error
	if b.admin, err = newUser(c.RESTConfig()); err != nil {
		return b, err
	}
	if err := provisioners.Apply(ctx, c); err != nil {
		return b, err
	}
	if err := c.CreateFiles(ctx, filepath.Join(manifests, "storageclass.yaml")); err != nil {
		return b, err
	}
	if err := b.setParams(ctx); err != nil {
		return b, err
	}
	for _, node := range []string{alpha, beta, gamma} {
		if err := b.addNode(ctx, node); err != nil {
			return b, err
		}
	}
	if b.unbound, err = b.login(ctx, nil); err != nil {
		return b, err
	}
	if b.others, err = b.impersonate("system:serviceaccount:default:"+account, ""); err != nil {
		return b, err
	}
	err = b.waitForPolicies(ctx)
	return b, err
}

// close closes all connections.
func (b *env) close() {
	if b == nil {
		return
	}
	users := []*user{b.admin, b.unbound, b.others}
	users = slices.AppendSeq(users, maps.Values(b.provisioners))
	users = slices.AppendSeq(users, maps.Values(b.privileged))
	for _, u := range users {
		u.close()
	}
}

// setParams adds what an administrator and the controller add: a class, and the
// hostname of a node.
func (b *env) setParams(ctx context.Context) error {
	patch := fmt.Sprintf(`{"data":{"classes":"%s, more-disks","host.%s":"%s"}}`, class, gamma, gammaHost)
	_, err := b.admin.CoreV1().ConfigMaps(namespace).Patch(ctx, params, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// addNode adds a cordoned node with two taints, a pod of the service account on it, and
// the users that have its name.
func (b *env) addNode(ctx context.Context, name string) error {
	host := name
	if name == gamma {
		host = gammaHost
	}
	node := builders.MakeNode(name).Hostname(host).Obj()
	node.Spec.Unschedulable = true
	node.Spec.Taints = []corev1.Taint{
		{Key: taintKey, Effect: corev1.TaintEffectNoSchedule},
		{Key: "example.com/reserved", Effect: corev1.TaintEffectNoSchedule},
	}
	if _, err := b.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	pod, err := b.admin.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: account + "-"},
		Spec: corev1.PodSpec{
			NodeName:           name,
			ServiceAccountName: account,
			Containers:         []corev1.Container{{Name: "provisioner", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if b.provisioners[name], err = b.login(ctx, pod); err != nil {
		return err
	}
	b.privileged[name], err = b.impersonate("system:serviceaccount:"+namespace+":"+account, name)
	return err
}
