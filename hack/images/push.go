// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// send pushes an image, with the credentials that `docker login` stored, and returns the
// reference under which it can be pulled. A registry on this machine is spoken to by HTTP.
func (o order) send(ctx context.Context, b artifact) (string, error) {
	ref, err := name.NewTag(o.push + "/" + b.name + ":" + o.tag)
	if err != nil {
		return "", err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if b.index != nil {
		return ref.String(), remote.WriteIndex(ref, b.index, options...)
	}
	return ref.String(), remote.Write(ref, b.images[0], options...)
}
