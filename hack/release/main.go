// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release makes the files of a release. It runs at the top of the repository, and `make release` and `make
// plugin` build what it packs:
//
//	bin/tools/release check -version v1.2.3
//	bin/tools/release pack -version v1.2.3 -created 1795312800 linux-amd64 windows-amd64
//	bin/tools/release plugin -version v1.2.3 -created 1795312800 linux-amd64 windows-amd64
//
// check rejects a version or a checkout that no release can be made of, pack makes all files, and plugin only those of the
// kubectl plugin; its platforms are the arguments. The same commit, binaries and flags make the same files, byte for byte.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1) //nolint:gocritic // the process ends
	}
}

// release is what all files of a release have in common.
type release struct {
	version, revision   string
	created             time.Time
	registry, downloads string
	// The checkout; binaries; and where files are written.
	source, bin, out string
	// Paths of tools.
	helm, kustomize string
}

// defaultRegistry is the prefix of the images' names in manifests: a name, not a registry.
const defaultRegistry = "stowage.dev"

func run(ctx context.Context, args []string, stdout io.Writer) error {
	const commands = "check, pack and plugin are allowed"
	if len(args) == 0 {
		return errors.New("name a command: " + commands)
	}
	r := release{source: "."}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "version, v1.2.3")
	flags.StringVar(&r.revision, "revision", "", "commit of the release")
	created := flags.Int64("created", 0, "time of all files, in seconds since 1970 (SOURCE_DATE_EPOCH)")
	flags.StringVar(&r.registry, "registry", defaultRegistry, "registry and prefix of the images")
	flags.StringVar(&r.downloads, "downloads", "", "URL below which the files are published; without it, krew's manifest has their names only")
	flags.StringVar(&r.bin, "bin", "bin", "folder of binaries: the kubectl plugin for linux/amd64 is plugin/linux-amd64/kubectl-stowage in it")
	flags.StringVar(&r.out, "out", "bin/plugin", "folder to write to")
	flags.StringVar(&r.helm, "helm", "helm", "helm, or its path")
	flags.StringVar(&r.kustomize, "kustomize", "kustomize", "kustomize, or its path")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	r.created = time.Unix(*created, 0).UTC()
	if r.version == "" {
		return errors.New("-version: must be given, such as v1.2.3")
	}
	switch args[0] {
	case "check":
		return r.check(ctx)
	case "pack":
		return r.pack(ctx, flags.Args(), stdout)
	case "plugin":
		files, err := r.packPlugin(flags.Args())
		for _, name := range files {
			fmt.Fprintln(stdout, filepath.Join(r.out, name))
		}
		return err
	}
	return fmt.Errorf("unknown command %q: %s", args[0], commands)
}
