// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// defaultServiceAccount is the service account of pods that do not specify one.
const defaultServiceAccount = "default"

// NewNamespace makes a namespace named after prefix with a suffix that makes it
// unique, waits until pods can be created in it and returns its name.
func (c *Cluster) NewNamespace(ctx context.Context, prefix string) (string, error) {
	ns, err := c.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a namespace for %q: %w", prefix, err)
	}
	if !c.config.hasServiceAccounts() {
		return ns.Name, nil
	}
	return ns.Name, c.waitServiceAccount(ctx, ns.Name)
}

// waitServiceAccount waits for a namespace's default service account, without which no pod
// is admitted.
func (c *Cluster) waitServiceAccount(ctx context.Context, namespace string) error {
	if m := c.controllerManager.Process(); m != nil {
		var cancel func()
		ctx, cancel = m.WhileRunning(ctx)
		defer cancel()
	}
	lw := cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "serviceaccounts", namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, defaultServiceAccount))
	if err := Until(ctx, lw, &corev1.ServiceAccount{}, func(runtime.Object) bool { return true }); err != nil {
		return fmt.Errorf("wait for the default service account of namespace %q: %w", namespace, err)
	}
	return nil
}

// Until watches objects like example until done returns true for one that was added
// or changed. Its error is the cause of the context's end.
func Until(ctx context.Context, lw cache.ListerWatcher, example runtime.Object, done func(runtime.Object) bool) error {
	_, err := watchtools.UntilWithSync(ctx, lw, example, nil, func(e watch.Event) (bool, error) {
		return (e.Type == watch.Added || e.Type == watch.Modified) && done(e.Object), nil
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
