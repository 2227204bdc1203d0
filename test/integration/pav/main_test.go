// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pav_test tests pod-templated volume provisioners on a real API server.
package pav_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

const manifests = "../../../manifests/"

var (
	provisioners = stowage.SchemeGroupVersion.WithResource("pavprovisioners")
	volumes      = stowage.SchemeGroupVersion.WithResource("pavvolumes")
)

// admin is what TestMain makes for all tests: a client with all rights.
var admin dynamic.Interface

func TestMain(m *testing.M) { os.Exit(fixture.MainOn(m, config, begin)) }

// config is a cluster without nodes and controllers.
func config() cluster.Config {
	return cluster.Config{
		Binaries: fixture.DefaultConfig().Binaries, NoKwok: true,
		ControllerManager: cluster.ControllerManagerConfig{Disabled: true},
	}
}

// begin installs the kinds, and returns when the API server serves them.
func begin(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	if admin, err = dynamic.NewForConfig(c.RESTConfig()); err != nil {
		return nil, err
	}
	kinds := manifests + "crd/pav/stowage.dev_"
	if err := c.CreateFiles(ctx, kinds+"pavprovisioners.yaml", kinds+"pavvolumes.yaml"); err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(admin, 0)
	for _, kind := range []schema.GroupVersionResource{provisioners, volumes} {
		factory.ForResource(kind)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("the API server does not serve %s: %w", kind, ctx.Err())
		}
	}
	return func() {}, nil
}
