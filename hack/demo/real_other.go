// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
)

// onRealNodes is no story here.
var onRealNodes = play{start: func(context.Context) (*demo, error) { return nil, errors.New("real nodes need Linux") }}
