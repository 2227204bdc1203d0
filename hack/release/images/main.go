// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command images writes container images of the product's binaries as archives,
// and SPDX documents that list their modules. It needs no registry and no container
// runtime. It is a separate module: the product does not depend on libraries for
// images. `make images` and `make sbom` build the binaries and run it at the top of
// the repository, and archives can be pushed later:
//
//	bin/tools/images write -version v1 -created 1795312800 stowage-scheduler
//	bin/tools/images sbom -version v1 -created 1795312800 stowage-scheduler
//	bin/tools/images push -to registry.example/team bin/images/stowage-scheduler.tar
//
// The same binaries and flags always make the same files, byte by byte.
package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/mod/semver"
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
		return errors.New("name a command: images write, images sbom or images push, see images write -help")
	}
	if args[0] == "push" {
		return push(ctx, args[1:], stdout)
	}
	do, known := map[string]func(options, context.Context, io.Writer) error{"write": options.write, "sbom": options.sbom}[args[0]]
	if !known {
		return fmt.Errorf("unknown command %q: write, sbom and push are allowed", args[0])
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
		if err := o.ofBinary(name).writeImage(ctx, name, table); err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	return table.Flush()
}

// writeImage makes an image, and prints a line for what is stored and one for what is pushed.
func (o options) writeImage(ctx context.Context, name string, table io.Writer) error {
	b, err := o.artifact(ctx, name)
	if err != nil {
		return err
	}
	path, err := o.archive(b)
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	digest, err := b.top().Digest()
	if err != nil {
		return err
	}
	size, err := b.size()
	if err != nil {
		return err
	}
	var platforms []string
	for _, p := range o.platforms {
		platforms = append(platforms, p.String())
	}
	list := strings.Join(platforms, ",")
	fmt.Fprintf(table, "%s\t%s\t%.1f MB\t%s\t%s\n", b.reference, list, float64(size)/1e6, digest, path)
	if o.push == "" {
		return nil
	}
	pushed, err := o.send(ctx, b)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	_, err = fmt.Fprintf(table, "%s\t%s\t\t%s\tpushed\n", pushed, list, digest)
	return err
}

// repository is the prefix of the images' names in manifests: a name, not a registry.
const repository = "stowage.dev"

// options are the arguments of a command.
type options struct {
	names     []string // of images and binaries, stowage-scheduler
	platforms []v1.Platform
	bin       string // folder with a folder of binaries for each platform, linux-amd64
	out       string // folder to write to
	registry  string // and prefix of the names of images
	tag       string
	base      string // reference of the base of images that do not run as root; empty: baseFiles
	push      string // registry and prefix; empty: not pushed

	version  string // of the product
	revision string // commit; empty if unknown
	created  time.Time
}

// binaryName is valid as the name of a file and of a repository.
var binaryName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// parse reads and checks the arguments of a command.
func parse(command string, args []string) (options, error) {
	var o options
	var platforms, created string
	flags := flag.NewFlagSet("images "+command, flag.ContinueOnError)
	flags.StringVar(&platforms, "platforms", "linux/amd64", "platforms, separated by commas; several make an index")
	flags.StringVar(&o.bin, "bin", "bin", "folder of binaries: stowage-scheduler for linux/amd64 is linux-amd64/stowage-scheduler in it")
	flags.StringVar(&o.version, "version", "unknown", "version of the product")
	flags.StringVar(&created, "created", "0", "time of all files, in seconds since 1970 (SOURCE_DATE_EPOCH)")
	if command == "write" {
		flags.StringVar(&o.out, "out", "bin/images", "folder of archives")
		flags.StringVar(&o.registry, "registry", repository, "registry and prefix of the names of images")
		flags.StringVar(&o.tag, "tag", "dev", "tag of the images")
		flags.StringVar(&o.base, "base", "", "image to add the binary to, unless it runs as root (default: no image)")
		flags.StringVar(&o.push, "push", "", "registry and prefix to push to, registry.example/team")
		flags.StringVar(&o.revision, "revision", "", "commit that the binaries were built from")
	} else {
		flags.StringVar(&o.out, "out", "bin/sbom", "folder of documents")
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.names = flags.Args()
	seconds, err := strconv.ParseInt(created, 10, 64)
	if err != nil || seconds < 0 {
		return o, fmt.Errorf("-created=%s: must be a whole number of seconds since 1970", created)
	}
	o.created = time.Unix(seconds, 0).UTC()
	if len(o.names) == 0 {
		return o, errors.New("name the images to make, such as stowage-scheduler")
	}
	systems := []string{"linux", "darwin", "windows"}
	for _, n := range o.names {
		if !binaryName.MatchString(n) {
			return o, fmt.Errorf("image %q: a name has small letters, digits and single dashes", n)
		}
		if isPlugin(n) && command == "write" {
			return o, fmt.Errorf("image %q: a plugin of kubectl is in no image", n)
		}
		if !isPlugin(n) {
			systems = systems[:1]
		}
	}
	if o.platforms, err = parsePlatforms(platforms, systems); err != nil {
		return o, err
	}
	if command != "write" {
		return o, nil
	}
	return o, o.checkReferences()
}

// checkReferences returns an error for a base, tag or registry that is not valid.
func (o options) checkReferences() error {
	if o.base != "" {
		if _, err := name.ParseReference(o.base); err != nil {
			return fmt.Errorf("-base=%s: must be a reference of an image: %w", o.base, err)
		}
	}
	if _, err := name.NewTag(repository+"/x:"+o.tag, name.StrictValidation); err != nil {
		return fmt.Errorf("-tag=%s: must be a tag of an image: %w", o.tag, err)
	}
	if err := checkRegistry("-registry", o.registry); err != nil {
		return err
	}
	if o.push == "" {
		return nil
	}
	return checkRegistry("-push", o.push)
}

// checkRegistry returns an error if the value of a flag is not the start of an image's name.
func checkRegistry(flag, value string) error {
	_, err := name.NewRepository(value+"/x", name.StrictValidation)
	if err == nil && strings.Contains(value, "://") {
		err = errors.New("no scheme is allowed")
	}
	if err != nil {
		return fmt.Errorf("%s=%s: must be a registry and a prefix, registry.example/team: %w", flag, value, err)
	}
	return nil
}

// parsePlatforms parses a list such as linux/amd64,linux/arm64, of these operating systems.
func parsePlatforms(list string, systems []string) ([]v1.Platform, error) {
	var platforms []v1.Platform
	for text := range strings.SplitSeq(list, ",") {
		os, arch, _ := strings.Cut(text, "/")
		if _, known := machines[arch]; !slices.Contains(systems, os) || !known {
			return nil, fmt.Errorf("-platforms=%s: %q is not one of %s/{%s}",
				list, text, strings.Join(systems, " or "), strings.Join(slices.Sorted(maps.Keys(machines)), ","))
		}
		p := v1.Platform{OS: os, Architecture: arch}
		if slices.ContainsFunc(platforms, p.Equals) {
			return nil, fmt.Errorf("-platforms=%s: %s is named twice", list, text)
		}
		platforms = append(platforms, p)
	}
	return platforms, nil
}

// isPlugin reports whether a binary is a plugin of kubectl.
func isPlugin(name string) bool { return strings.HasPrefix(name, "kubectl-") }

// ofBinary returns the options of one image. If its binary contains the scheduler of a minor of
// Kubernetes, tag and version name that: v1-kube1.36. A plugin is not for one minor.
func (o options) ofBinary(name string) options {
	info, err := buildinfo.ReadFile(o.binary(name, o.platforms[0]))
	if err != nil || isPlugin(name) {
		return o // readBinary reports a binary that cannot be read
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/kubernetes" {
			suffix := "-kube" + strings.TrimPrefix(semver.MajorMinor(m.Version), "v")
			o.tag, o.version = o.tag+suffix, o.version+suffix
		}
	}
	return o
}

// binary is where the binary of an image is.
func (o options) binary(name string, p v1.Platform) string {
	if p.OS == "windows" {
		name += ".exe"
	}
	return filepath.Join(o.bin, p.OS+"-"+p.Architecture, name)
}
