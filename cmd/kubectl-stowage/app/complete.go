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

// complete completes the first argument with the names of objects of some kinds. With several kinds each
// name has its kind as its description.
func (c *cluster) complete(kinds ...snapshot.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.names(cmd.Context(), prefix, kinds...), cobra.ShellCompDirectiveNoFileComp
	}
}

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

// names returns the names of objects that begin with a prefix, sorted: of all namespaces or the one of the
// flags. Those that cannot be listed are not offered; there is nowhere to print an error.
func (c *cluster) names(ctx context.Context, prefix string, kinds ...snapshot.Kind) []cobra.Completion {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	namespace, err := c.namespace()
	if err != nil {
		return nil
	}
	list, err := c.lister(ctx)
	if err != nil {
		return nil
	}
	var all []cobra.Completion
	for _, kind := range kinds {
		of := ""
		if kind.Namespaced {
			of = namespace
		}
		names, err := list(kind, of)
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		for _, name := range names {
			switch {
			case !strings.HasPrefix(name, prefix):
			case len(kinds) > 1:
				all = append(all, cobra.CompletionWithDesc(name, kind.Kind))
			default:
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// lister returns the function that lists the names of a kind in a namespace; empty if it has none. From a
// cluster it lists metadata only.
func (c *cluster) lister(ctx context.Context) (func(kind snapshot.Kind, namespace string) ([]string, error), error) {
	if c.from != "" {
		files, err := snapshot.Open(c.from)
		if err != nil {
			return nil, err
		}
		return func(kind snapshot.Kind, namespace string) (names []string, _ error) {
			for _, object := range files.Objects(kind) {
				if object.GetNamespace() == namespace {
					names = append(names, object.GetName())
				}
			}
			return names, nil
		}, nil
	}
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return func(kind snapshot.Kind, namespace string) (names []string, _ error) {
		objects, err := client.Resource(kind.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: completionObjects})
		if err != nil {
			return nil, err
		}
		for i := range objects.Items {
			names = append(names, objects.Items[i].Name)
		}
		return names, nil
	}, nil
}
