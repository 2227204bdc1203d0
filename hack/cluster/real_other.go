// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
)

// upReal returns an error: real nodes need Linux.
func upReal(context.Context, options) error { return errors.New("real nodes need Linux") }
