// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
)

// upReal says that there is no such thing here.
func upReal(context.Context, options) error { return errors.New("real nodes need Linux") }
