// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"stowage.dev/stowage/pkg/apis/controller"
	"stowage.dev/stowage/pkg/diskreports"
)

// loop is work that the leading replica does.
type loop struct {
	name string
	// run works until its context ends. Nothing of it is left running when it returns.
	run func(context.Context) error
}

// parts are what loops are made from, once for each process. Who makes a loop asks
// the informers for what it reads and adds its handlers; the informers start after
// that, on replicas that stand by too, so that they take over with warm caches. A
// loop runs once all of them are synced and this replica leads.
type parts struct {
	settings *controller.ControllerConfiguration
	client   kubernetes.Interface
	// connection is what client was made from, for clients of other kinds.
	connection *rest.Config
	informers  informers.SharedInformerFactory
	// reports reads and writes LocalDiskReports, reportInformer has those of all nodes.
	reports        *diskreports.Client
	reportInformer cache.SharedIndexInformer
	events         events.EventRecorder
}

// makeLoops makes all loops. An error names the loop.
func makeLoops(p *parts) ([]loop, error) {
	makers := []struct {
		name string
		make func(*parts) (func(context.Context) error, error)
	}{}
	var loops []loop
	for _, maker := range makers {
		run, err := maker.make(p)
		if err != nil {
			return nil, fmt.Errorf("make the loop %s: %w", maker.name, err)
		}
		loops = append(loops, loop{maker.name, run})
	}
	return loops, nil
}
