// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command images writes container images of the product's binaries as archives,
// and SPDX documents that list their modules. It needs no registry and no container
// runtime. It is a separate module: the product does not depend on libraries for
// images. `make images` and `make sbom` build the binaries and run it at the top of
// the repository:
//
//	bin/tools/images write -version v1 -created 1795312800 stowage-scheduler
//	bin/tools/images sbom -version v1 -created 1795312800 stowage-scheduler
//
// The same binaries and flags always make the same files, byte by byte.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1) //nolint:gocritic // the process ends
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("name a command: images write or images sbom, see images write -help")
	}
	do, known := map[string]func(options, context.Context, io.Writer) error{"write": options.write, "sbom": options.sbom}[args[0]]
	if !known {
		return fmt.Errorf("unknown command %q: write and sbom are allowed", args[0])
	}
	o, err := parse(args[0], args[1:])
	if err != nil {
		return err
	}
	return do(o, ctx, stdout)
}

// write makes, stores and optionally pushes every image, and prints a table.
func (o options) write(ctx context.Context, stdout io.Writer) error {
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tPLATFORM\tLAYERS\tDIGEST\tARCHIVE")
	for _, name := range o.names {
		b, err := o.artifact(ctx, name)
		if err != nil {
			return fmt.Errorf("make image %s: %w", name, err)
		}
		path, err := o.archive(b)
		if err != nil {
			return fmt.Errorf("write archive of %s: %w", name, err)
		}
		digest, err := b.top().Digest()
		if err != nil {
			return fmt.Errorf("make image %s: %w", name, err)
		}
		size, err := b.size()
		if err != nil {
			return fmt.Errorf("make image %s: %w", name, err)
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f MB\t%s\t%s\n", b.reference, o.platformNames(), float64(size)/1e6, digest, path)
		if o.push == "" {
			continue
		}
		pushed, err := o.send(ctx, b)
		if err != nil {
			return fmt.Errorf("push image %s: %w", name, err)
		}
		fmt.Fprintf(table, "%s\t%s\t\t%s\tpushed\n", pushed, o.platformNames(), digest)
	}
	return table.Flush()
}

func (o options) platformNames() string {
	names := make([]string, 0, len(o.platforms))
	for _, p := range o.platforms {
		names = append(names, p.String())
	}
	return strings.Join(names, ",")
}
