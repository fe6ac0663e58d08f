package command

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"
)

// release is the version of a release, set by the linker (.goreleaser.yaml).
var release string // read-only

// Version returns the release, the module's version, or the commit of the build.
var Version = sync.OnceValue(func() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if commit := setting(info, "vcs.revision"); len(commit) >= 12 {
		return commit[:12]
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "build-" + buildID() // without git: two builds still differ
}) // read-only

// setting returns a setting of the build; "" if it was not recorded.
func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// NewVersion returns the verb that says what this build is.
func NewVersion(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, with commit and date",
		Example: "  ceiling version",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(out, describeBuild(c.Root().Name()))
			return err
		},
	}
}

// describeBuild is one line: "ceiling 1.2.0, commit 8f2b4de3ff21 of 2026-11-28T03:31:55Z, go1.26.8 linux/amd64".
func describeBuild(program string) string {
	text := program + " " + Version()
	if info, ok := debug.ReadBuildInfo(); ok {
		if commit := setting(info, "vcs.revision"); len(commit) >= 12 {
			text += ", commit " + commit[:12] + " of " + setting(info, "vcs.time")
		}
		if setting(info, "vcs.modified") == "true" {
			text += ", with uncommitted changes"
		}
	}
	return fmt.Sprintf("%s, %s %s/%s", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildID returns the end of the linker's ID of this program, which is a hash of its content.
func buildID() string {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	section := f.Section(".note.go.buildid")
	if section == nil {
		return "unknown"
	}
	note, err := section.Data()
	if err != nil {
		return "unknown"
	}
	id := string(bytes.TrimRight(note, "\x00"))
	return id[max(0, len(id)-12):]
}
