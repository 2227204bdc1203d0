// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "errors"

var errLinux = errors.New("provisioners publish disks of Linux only")

func publishable(string) bool { return false }

func (d *disks) mount(string) error { return errLinux }

func (d *disks) mountMemory(string) error { return errLinux }

func (d *disks) device(string) error { return errLinux }
