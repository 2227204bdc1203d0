// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wipe cleans block devices, and determines whether they are blank. The guarantees of
// the methods differ:
//
//	fs-reset    zeroes both ends of the device and every place where a known format keeps
//	            a superblock or a copy of it. All other bytes remain readable.
//	blkdiscard  discards the whole device, then as fs-reset. Whether old bytes remain
//	            readable depends on the device.
//	zero        the device reads as zeros from end to end. The device is asked to zero
//	            (punching holes, then writing zeroes); where it cannot, or did not, zeros
//	            are written.
//	dd-zero     writes zeros to the whole device, as often as configured.
//	shred       writes random bytes to the whole device, as often as configured, then zeros.
//	hdparm      ATA secure erase by the tool of that name, then as fs-reset.
//	a path      a command, with the device in LOCAL_PV_BLKDEVICE.
//
// With every method, a run succeeds only if Inspect finds nothing afterwards; zero also reads
// samples of every stretch. Whether a device that was not cleaned here is blank is proven by
// ProveBlank only, which reads every byte. A device with spare sectors may keep old bytes in
// them after any method but a secure erase.
//
// The device is held by one descriptor with O_EXCL from the verification of its identity to
// the last byte, so that nothing can mount it meanwhile. Commands are the exception: they have
// the device to themselves, and its identity is verified before and after them. Reads and
// writes bypass the page cache, at idle I/O priority. A run needs less than 8 MiB of memory.
package wipe
