// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wipe cleans block devices, and tells whether they are blank. What a
// method promises differs:
//
//	fs-reset    every place is zeroed where a format that is known keeps a
//	            superblock, its copies included, and both ends of the device. All
//	            else stays, and can be read by whoever reads the device.
//	blkdiscard  the device is told to forget everything, then as fs-reset. Whether
//	            old bytes can still be read is up to the device.
//	zero        reads as zeros from end to end. The device is asked to do it
//	            (punching holes, then writing zeroes), and where it cannot, or is
//	            found not to have done it, zeros are written.
//	dd-zero     zeros are written over everything, as often as asked.
//	shred       random bytes are written over everything, as often as asked, and
//	            zeros after them.
//	hdparm      ATA secure erase by the tool of that name, then as fs-reset.
//	a path      a command, which is told the device in LOCAL_PV_BLKDEVICE.
//
// Whatever the method, a run succeeds only if Inspect finds nothing afterwards; zero
// reads back samples of every stretch besides. Of a device that was not cleaned here only
// ProveBlank, which reads every byte, can tell that it is blank. A device
// that keeps sectors in reserve may hold old bytes there after any method but a
// secure erase.
//
// The device is held from the check of its identity to the last byte by one
// descriptor with O_EXCL, so that nothing can mount it meanwhile. Commands are the
// exception: they get the device to themselves, and its identity is checked before
// and after them. Reads and writes pass by the page cache, at idle I/O priority. A
// run needs less than 8 MiB of memory.
package wipe
