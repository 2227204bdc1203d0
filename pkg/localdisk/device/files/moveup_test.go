// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestMoveUp(t *testing.T) {
	deep := strings.Repeat("/d", levels)
	tests := map[string]struct {
		kinds []string
		// open is how many directories may be open at a time; 0 is levels.
		open int
		fill func(t *testing.T, root string)
	}{
		"immutable and append-only at the depth at which directories are moved": {
			kinds: []string{"ext4", "xfs", "btrfs"},
			fill: func(t *testing.T, root string) {
				deepen(t, root, 3*levels)
				must(t, os.MkdirAll(root+deep+"/beside/it", 0o700))
				run(t, "chattr", "+i", root+deep+"/d/d", root+deep+"/d", root+deep+"/beside")
				run(t, "chattr", "+a", root+deep)
			},
		},
		"each directory in a project of its own": {
			kinds: []string{"xfs"},
			fill: func(t *testing.T, root string) {
				setProject(t, root, 1)
				for at, project := root, uint32(2); project < 3*levels; project++ {
					at += "/d"
					must(t, os.Mkdir(at, 0o700))
					setProject(t, at, project)
				}
			},
		},
		"in subvolumes": {
			kinds: []string{"btrfs"},
			open:  2 * levels,
			fill: func(t *testing.T, root string) {
				for at, depths := root, []int{0, 1, levels - 1, levels, levels + 1, 2 * levels}; len(depths) > 0; depths = depths[1:] {
					deepen(t, at, depths[0])
					at += strings.Repeat("/d", depths[0])
					run(t, "btrfs", "subvolume", "create", at+"/sub")
					at += "/sub"
					deepen(t, at, levels+10)
				}
			},
		},
		"nested subvolumes": {
			kinds: []string{"btrfs"},
			open:  2 * levels,
			fill: func(t *testing.T, root string) {
				for at := root; len(at) < len(root)+2*3*levels; {
					at += "/s"
					run(t, "btrfs", "subvolume", "create", at)
				}
			},
		},
		"a full disk, the file that fills it below all directories": {
			kinds: []string{"ext4", "xfs", "btrfs", "tmpfs"},
			open:  levelsRefused,
			fill: func(t *testing.T, root string) {
				bottom := chain(t, root, levelsRefused+2*levels, strings.Repeat("d", 250))
				defer unix.Close(bottom)
				fillUp(t, bottom)
			},
		},
		"a full disk, and a full root directory": {
			kinds: []string{"ext4"},
			fill: func(t *testing.T, root string) {
				const most = 4096 / (255 + 8) // in a block
				for i := range most {
					bottom := chain(t, root, levelsRefused+2*levels, strings.Repeat(string(rune('a'+i)), 255))
					if i == most-1 {
						fillUp(t, bottom)
					}
					_ = unix.Close(bottom)
				}
			},
		},
	}
	for name, test := range tests {
		for _, kind := range test.kinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				root := mount(t, kind)
				test.fill(t, root)
				before := descriptors(t)
				r := open(t, root)
				most := 0
				report := &reporter{progress: func(disk.Progress) error { most = max(most, descriptors(t)); return nil }}
				must(t, r.do(func(fd int) error { return r.passes(t.Context(), fd, report) }))
				checkEmpty(t, r)
				if allowed := before + max(test.open, levels) + 3; most > allowed {
					t.Errorf("%d descriptors open at a time, more than %d", most, allowed)
				}
				if after := descriptors(t); after != before {
					t.Errorf("%d descriptors before, %d after", before, after)
				}
			})
		}
	}
}

// setProject makes a directory, and all that is created in it, count to a project.
func setProject(t *testing.T, at string, project uint32) {
	t.Helper()
	fd, err := unix.Open(at, directoryFlags, 0)
	must(t, err)
	defer unix.Close(fd)
	x, err := readExtended(fd)
	must(t, err)
	x.project = project
	must(t, writeExtended(fd, x))
	flags, err := readFlags(fd)
	must(t, err)
	must(t, writeFlags(fd, flags|flagProjectInherit))
}

// chain makes directories one in the other, and returns the lowest.
func chain(t *testing.T, at string, depth int, name string) int {
	t.Helper()
	fd, err := unix.Open(at, directoryFlags, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, name, 0o700))
		below, err := unix.Openat(fd, name, directoryFlags, 0)
		must(t, err)
		_ = unix.Close(fd)
		fd = below
	}
	return fd
}

// fillUp makes a file that takes all space of a file system.
func fillUp(t *testing.T, dir int) {
	t.Helper()
	fd, err := unix.Openat(dir, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	must(t, err)
	defer unix.Close(fd)
	end := int64(0)
	for bytes := int64(256 << 20); bytes >= 512; {
		switch err := unix.Fallocate(fd, 0, end, bytes); {
		case err == nil:
			end += bytes
		case errors.Is(err, unix.ENOSPC):
			bytes /= 2
		default:
			t.Fatal(err)
		}
	}
}

// Directories of a lower layer of overlayfs cannot be moved.
func TestImmovableDirectories(t *testing.T) {
	for name, test := range map[string]struct {
		depth int
		want  error
	}{
		"up to the limit":  {depth: levelsRefused},
		"beyond the limit": {depth: levelsRefused + 10, want: unix.EXDEV},
	} {
		t.Run(name, func(t *testing.T) {
			below := mount(t, "tmpfs")
			for _, dir := range []string{"/lower", "/upper", "/scratch"} {
				must(t, os.Mkdir(below+dir, 0o700))
			}
			deepen(t, below+"/lower", test.depth)
			write(t, below+"/lower/z", "x")
			root := mountPoint(t)
			run(t, "mount", "-t", "overlay", "-o", "redirect_dir=off,lowerdir="+below+"/lower,upperdir="+below+"/upper,workdir="+below+"/scratch", "overlay", root)
			r := open(t, root)
			err := r.Clean(t.Context(), nil)
			if !errors.Is(err, test.want) {
				t.Errorf("Clean: %v, want %v", err, test.want)
			}
			if test.want == nil {
				checkEmpty(t, r)
			} else if left := names(t, root); len(left) > 2 {
				t.Errorf("left in the root: %q", left)
			}
		})
	}
}

// The ledger does not count moved directories as a writer's.
func TestMovedDirectoriesAreNotCountedTwice(t *testing.T) {
	onEach(t, func(t *testing.T, root string) {
		deepen(t, root, 20*levels)
		widen(t, root, 3000) // so that the root is read while the scratch directory is in it
		must(t, os.Mkdir(root+"/late", 0o700))
		deepen(t, root+"/late", 20*levels)
		r := open(t, root)
		w := &walk{root: r, reporter: &reporter{every: time.Hour}, ledger: ledger{began: time.Now()}, buf: make([]byte, namesBytes)}
		must(t, r.do(func(fd int) error { return w.run(t.Context(), fd) }))
		if w.ledger.foreign > 0 || w.ledger.contested > 0 {
			t.Errorf("ledger %+v", w.ledger)
		}
	})
}

// A clean that is killed repeatedly completes.
func TestInterruptedCleansMakeProgress(t *testing.T) {
	const depth, steps, attempts = 50 * levels, 4 * levels, 100
	onEach(t, func(t *testing.T, root string) {
		deepen(t, root, depth)
		r := open(t, root)
		killed := errors.New("killed")
		for range attempts {
			step := 0
			err := r.do(func(fd int) error {
				return r.passes(t.Context(), fd, &reporter{progress: func(disk.Progress) error {
					if step++; step > steps {
						return killed
					}
					return nil
				}})
			})
			if err == nil {
				checkEmpty(t, r)
				return
			}
			if !errors.Is(err, killed) {
				t.Fatal(err)
			}
		}
		t.Errorf("%d levels were not deleted by %d cleans of %d steps", depth, attempts, steps)
	})
}

// A mount in a directory moves with it, and is not entered.
func TestMountAtAnyDepthStopsTheClean(t *testing.T) {
	root := mount(t, "tmpfs")
	deepen(t, root, 3*levels)
	at := root + strings.Repeat("/d", 2*levels) + "/mount"
	must(t, os.Mkdir(at, 0o700))
	must(t, unix.Mount(outside(t), at, "", unix.MS_BIND, ""))
	r := open(t, root)
	err := r.do(func(fd int) error { return r.passes(t.Context(), fd, &reporter{every: time.Hour}) })
	nested, ok := errors.AsType[*NestedMountError](err)
	if !ok {
		t.Fatalf("the walk: %v", err)
	}
	if err := unix.Unmount(nested.Path, unix.UMOUNT_NOFOLLOW); err != nil {
		t.Errorf("unmount %s, where the walk found a mount: %v", nested.Path, err)
	}
	must(t, r.Clean(t.Context(), nil))
}
