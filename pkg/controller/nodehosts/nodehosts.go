// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehosts writes the hostnames of nodes that differ from their names to the ConfigMap
// of parameters of the provisioner's admission policies, as host.<node>. Keys of other owners are
// not changed.
package nodehosts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/loop"
)

// The ConfigMap, and the prefix of the keys of this controller.
const (
	Name   = "stowage-provisioner-nodes"
	prefix = "host."
)

// manager is the field manager of the keys (server-side apply).
const manager = "stowage-controller-nodehosts"

// A failed write is retried after retryFirst, then with a growing delay.
const retryFirst, retryLast = time.Second, time.Minute

// Controller writes the keys. Only the leader runs it.
type Controller struct {
	client    kubernetes.Interface
	namespace string
	nodes     corelisters.NodeLister
	factory   informers.SharedInformerFactory // of the ConfigMap alone
	maps      corelisters.ConfigMapNamespaceLister
	queue     loop.Queue // one key, for all nodes
}

// New returns a controller for the ConfigMap of a namespace; Run starts it. The caller runs the shared informers, and syncs them
// before Run.
func New(client kubernetes.Interface, shared informers.SharedInformerFactory, namespace string) (*Controller, error) {
	only := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", Name).String()
	})
	c := &Controller{client: client, namespace: namespace, nodes: shared.Core().V1().Nodes().Lister()}
	c.factory = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), only)
	c.maps = c.factory.Core().V1().ConfigMaps().Lister().ConfigMaps(namespace)
	c.queue = loop.NewQueue("node_hosts", retryFirst, retryLast)
	changed := func(old, object any) {
		before, isNode := old.(*corev1.Node)
		after, stillNode := object.(*corev1.Node)
		if isNode && stillNode && before.Labels[corev1.LabelHostname] == after.Labels[corev1.LabelHostname] {
			return
		}
		c.queue.Add(Name)
	}
	if err := errors.Join(loop.Watch(shared.Core().V1().Nodes().Informer(), changed),
		loop.Watch(c.factory.Core().V1().ConfigMaps().Informer(), changed)); err != nil {
		return nil, fmt.Errorf("watch nodes and ConfigMap %s: %w", Name, err)
	}
	return c, nil
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	stop, err := loop.Start(ctx, c.factory)
	defer stop()
	if err != nil {
		return err
	}
	loop.Run(ctx, c.queue, 1, func(ctx context.Context, _ string) (time.Duration, error) { return 0, c.write(ctx) })
	return nil
}

// write applies the needed keys.
func (c *Controller) write(ctx context.Context) error {
	shown, err := c.maps.Get(Name)
	if apierrors.IsNotFound(err) {
		return nil // without provisioners there are no policies; an event of the ConfigMap enqueues the key
	} else if err != nil {
		return fmt.Errorf("get ConfigMap %s: %w", Name, err)
	}
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	ours := owned(shown)
	wanted := needed(nodes)
	for key, value := range wanted {
		others, there := shown.Data[key]
		if _, own := ours[key]; there && !own {
			if others != value {
				klog.FromContext(ctx).Info("Hostname key has another owner; not overwriting", "key", key, "value", others, "label", value)
			}
			delete(wanted, key)
		}
	}
	if maps.Equal(wanted, ours) {
		return nil
	}
	change := applyv1.ConfigMap(Name, c.namespace).WithUID(shown.UID).WithData(wanted)
	if _, err := c.client.CoreV1().ConfigMaps(c.namespace).Apply(ctx, change, metav1.ApplyOptions{FieldManager: manager}); err != nil {
		return fmt.Errorf("apply the hostnames of nodes to ConfigMap %s: %w", Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Wrote hostnames of nodes", "nodes", len(wanted))
	return nil
}

// needed returns the keys for nodes whose hostname differs from their name. A hostname that is
// the name or the hostname of another node is ignored: a kubelet may label its own Node, and a
// compromised one could let its provisioner publish volumes for other nodes.
func needed(nodes []*corev1.Node) map[string]string {
	claimed := map[string]int{}
	for _, node := range nodes {
		claimed[node.Name]++
		if host := node.Labels[corev1.LabelHostname]; host != node.Name {
			claimed[host]++
		}
	}
	wanted := map[string]string{}
	for _, node := range nodes {
		key, host := prefix+node.Name, node.Labels[corev1.LabelHostname]
		if host != "" && host != node.Name && claimed[host] == 1 && len(validation.IsConfigMapKey(key)) == 0 {
			wanted[key] = host
		}
	}
	return wanted
}

// owned returns the keys that this controller has applied, with their values.
func owned(shown *corev1.ConfigMap) map[string]string {
	keys := map[string]string{}
	for _, entry := range shown.ManagedFields {
		if entry.Manager != manager || entry.FieldsV1 == nil {
			continue
		}
		for key, value := range shown.Data {
			if strings.HasPrefix(key, prefix) && strings.Contains(entry.FieldsV1.String(), `"f:`+key+`"`) {
				keys[key] = value
			}
		}
	}
	return keys
}
