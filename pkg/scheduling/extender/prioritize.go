// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
	"stowage.dev/stowage/pkg/scheduling/volumecache/attempt"
	"stowage.dev/stowage/pkg/scheduling/volumecache/score"
)

// prioritize ranks nodes by the utilization of their storage with the pod's claims, 0 to
// 10, all equal if there is no choice.
func (e *Extender) prioritize(ctx context.Context, args *extenderv1.ExtenderArgs) (*ranking, error) {
	if args.Pod == nil {
		return nil, errNoPod
	}
	ranks := &ranking{of: e.candidates(args), list: rankLists.get()}
	rate := func(*v1.Node) int64 { return extenderv1.MinExtenderPriority }
	if claims.Any(args.Pod) {
		begun, refusal, err := attempt.Begin(ctx, e.cache, args.Pod)
		if err != nil {
			return nil, err
		}
		if refusal == nil && begun.Demand.HasUnboundClaims() {
			var buffer [4]volumecache.Usage
			rate = func(node *v1.Node) int64 {
				return toExtenderScale(e.score.Of(e.cache.Usage(begun.Demand, node, buffer[:0])))
			}
		}
	}
	err := ranks.of.each(ctx, func(_ int, name string, node *v1.Node) {
		points := extenderv1.MinExtenderPriority
		if node != nil {
			points = rate(node)
		}
		*ranks.list = append(*ranks.list, extenderv1.HostPriority{Host: name, Score: points})
	})
	return ranks, err
}

// toExtenderScale converts a score to the protocol's scale.
func toExtenderScale(points int64) int64 {
	const scale = float64(score.Max) / float64(extenderv1.MaxExtenderPriority)
	return int64(math.Round(float64(points) / scale))
}
