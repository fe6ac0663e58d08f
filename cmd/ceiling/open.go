package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/show/page"
)

func newOpen(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "open ID…",
		Short: "Open the report of a run or a plan in a browser",
		Long: `Writes the page of ceiling report to your cache directory, prints its path, and
opens it in your browser (xdg-open).`,
		Example: `  ceiling open x7f2
  ceiling open x7f2 k3mc`,
		Args:              atLeastOneRecord,
		ValidArgsFunction: completeRuns,
		RunE: func(c *cobra.Command, args []string) error {
			document, err := sh.documentOf(args)
			if err != nil {
				return err
			}
			file, err := pageFile(args)
			if err == nil {
				err = command.WriteWhole(file, func(w io.Writer) error { return page.HTML(w, document) })
			}
			if err != nil {
				return fmt.Errorf("write the page: %w", err)
			}
			fmt.Fprintln(sh.Stdout, file)
			if err := openInBrowser(c.Context(), file); err != nil {
				sh.Note("no browser was started: %s; open the file above yourself", command.OneLine(err))
			}
			return nil
		},
	}
}

// pageFile is the path of the page of some records: the same names give the same path, so that
// pages do not pile up.
func pageFile(names []string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "ceiling", "pages")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	plain := func(r rune) rune {
		if r == '/' || r < ' ' {
			return '_'
		}
		return r
	}
	name := strings.Map(plain, strings.Join(names, "+"))
	return filepath.Join(dir, name[:min(len(name), 100)]+".html"), nil
}

// openInBrowser asks the desktop to show a file. It fails without a desktop.
func openInBrowser(ctx context.Context, file string) error {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return fmt.Errorf("there is no display here (DISPLAY and WAYLAND_DISPLAY are not set)")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, "xdg-open", file).Run()
}
