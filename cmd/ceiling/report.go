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
	"ceiling/cmd/internal/records"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/importer"
	"ceiling/show/page"
)

func newReport(sh *shell) *cobra.Command {
	var out string
	var open bool
	c := &cobra.Command{
		Use:   "report ID…",
		Short: "Write runs or a plan as one HTML or Markdown file",
		Long: `Writes one self-contained file: the verdict, where the time goes, charts of
latency, rate, cores, processes and link, and the environment. Several runs are
overlaid, with their differences at the top. Sweeps, searches, proofs and
comparisons have their own pages, as do the results of other tools (wrk, hey, oha,
autocannon, vegeta, k6). Passwords in URLs and credentials in header fields are
left out.

The file extension selects the format: .html or .md. For a PDF, print the HTML
from a browser; it has a print style. --open shows the page in your browser
(xdg-open); without -o it is written to your cache directory.`,
		Example: `  ceiling report --open x7f2
  ceiling report x7f2 -o report.html
  ceiling report x7f2 k3mc ./a.ndjson.gz -o report.md`,
		Args:              atLeastOneRecord,
		ValidArgsFunction: completeRuns,
		RunE: func(c *cobra.Command, args []string) (err error) {
			file := out
			if out == "" && open {
				if file, err = pageFile(args); err != nil {
					return fmt.Errorf("write the page: %w", err)
				}
			}
			document, err := sh.documentOf(args)
			if err != nil {
				return err
			}
			write, err := records.FormOf(file)
			if err != nil {
				return command.Usage(err)
			}
			if err := records.WriteWhole(file, func(w io.Writer) error { return write(w, document) }); err != nil {
				return fmt.Errorf("write report: %w", err)
			}
			if !open {
				fmt.Fprintf(sh.Stderr, "written: %s\n", file)
				return nil
			}
			fmt.Fprintln(sh.Stdout, file)
			if err := openInBrowser(c.Context(), file); err != nil {
				sh.Note("no browser was started: %s; open the file above yourself", command.OneLine(err))
			}
			return nil
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "file to write: report.html or report.md")
	c.Flags().BoolVar(&open, "open", false, "open the page in a browser")
	return c
}

// atLeastOneRecord requires a record.
func atLeastOneRecord(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return command.Usage(fmt.Errorf("%s takes at least one ID or file; see: %s --help", c.Name(), c.CommandPath()))
	}
	return nil
}

// reportOf writes a record's report.
func (sh *shell) reportOf(file record.File) func(io.Writer) error {
	return func(w io.Writer) error {
		d, err := sh.documentOf([]string{file.String()})
		if err != nil {
			return err
		}
		return page.HTML(w, d)
	}
}

// documentOf returns the page of the named runs, in their order, or of one plan.
func (sh *shell) documentOf(names []string) (page.Document, error) {
	if isFile(names[0]) {
		return importedDocument(names)
	}
	var runs []chart.Run
	for _, name := range names {
		if isFile(name) {
			return page.Document{}, command.Usage(fmt.Errorf("%s is of another tool and %s is a run of ours: compare them with ceiling compare", name,
				names[0]))
		}
		file, err := records.Find(&sh.Shell, name)
		switch {
		case err != nil:
			return page.Document{}, err
		case file.IsPlan() && len(names) > 1:
			return page.Document{}, command.Usage(fmt.Errorf("%s is a plan, which has its own page: report it separately", name))
		case file.IsPlan():
			p, err := page.OpenPlan(file)
			if err != nil {
				return page.Document{}, err
			}
			return page.Plan(p)
		}
		run, err := page.Open(file)
		if err != nil {
			return page.Document{}, err
		}
		judgeKilled(run.Run, run.Series)
		runs = append(runs, run)
	}
	document, err := page.Runs(runs)
	return document, command.Usage(err)
}

// isFile reports whether name is another tool's file, or points, rather than a record.
func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && !record.IsRecord(name)
}

// importedDocument returns the page of other tools' results.
func importedDocument(names []string) (page.Document, error) {
	results := make([]importer.Result, len(names))
	for i, name := range names {
		if !isFile(name) {
			return page.Document{}, command.Usage(fmt.Errorf("%s is not a file and %s is of another tool: compare them with ceiling compare", name,
				names[0]))
		}
		var err error
		if results[i], err = readForeign(name); err != nil {
			return page.Document{}, err
		}
	}
	return page.Foreign(names, results), nil
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
		return fmt.Errorf("no display (DISPLAY and WAYLAND_DISPLAY are not set)")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, "xdg-open", file).Run()
}
