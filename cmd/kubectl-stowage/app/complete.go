// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// Bounds of a completion, for which a user waits: of more objects, some are not offered.
const (
	completionTimeout = 3 * time.Second
	completionObjects = 5000
)

// completeFlag completes the values of a flag with the names of objects of a kind.
func (c *cluster) completeFlag(cmd *cobra.Command, flag string, kind snapshot.Kind) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.names(cmd.Context(), prefix, kind), cobra.ShellCompDirectiveNoFileComp
	}) // fails for unknown flags only
}

// completeGlobalFlags completes those of all commands.
func (c *cluster) completeGlobalFlags(root *cobra.Command) {
	c.completeFlag(root, "namespace", snapshot.KindOf[*corev1.Namespace]())
	_ = root.RegisterFlagCompletionFunc("context", func(_ *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		config, err := c.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for name := range config.Contexts {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names, cobra.ShellCompDirectiveNoFileComp
	}) // fails for unknown flags only
}

// names returns the names of the objects of a kind that begin with a prefix, sorted: of the namespace of the flags,
// if the kind has namespaces. If they cannot be listed there are none: a completion cannot print an error.
func (c *cluster) names(ctx context.Context, prefix string, kind snapshot.Kind) []cobra.Completion {
	namespace := ""
	if kind.Namespaced {
		var err error
		if namespace, err = c.namespace(); err != nil {
			return nil
		}
	}
	list := c.listNames
	if c.from != "" {
		list = c.listNamesOfFiles
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	names, err := list(ctx, kind, namespace)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
	slices.Sort(names)
	return names
}

// listNames reads metadata only.
func (c *cluster) listNames(ctx context.Context, kind snapshot.Kind, namespace string) (names []string, err error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := client.Resource(kind.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: completionObjects})
	if err != nil {
		return nil, err
	}
	for i := range objects.Items {
		names = append(names, objects.Items[i].Name)
	}
	return names, nil
}

func (c *cluster) listNamesOfFiles(ctx context.Context, kind snapshot.Kind, namespace string) (names []string, err error) {
	files, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	for _, object := range files.Objects(kind) {
		if object.GetNamespace() == namespace {
			names = append(names, object.GetName())
		}
	}
	return names, nil
}
