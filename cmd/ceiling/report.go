package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/importer"
	"ceiling/show/page"
)

func newReport(sh *shell) *cobra.Command {
	var out string
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
from a browser; it has a print style.`,
		Example: `  ceiling report x7f2 -o report.html
  ceiling report x7f2 k3mc ./a.ndjson.gz -o report.md`,
		Args:              atLeastOneRecord,
		ValidArgsFunction: completeRuns,
		RunE: func(_ *cobra.Command, args []string) error {
			write, err := formOf(out)
			if err != nil {
				return usage(err)
			}
			document, err := sh.documentOf(args)
			if err != nil {
				return err
			}
			if err := writeWhole(out, func(w io.Writer) error { return write(w, document) }); err != nil {
				return fmt.Errorf("write report: %w", err)
			}
			fmt.Fprintf(sh.stderr, "written: %s\n", out)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "file to write: report.html or report.md")
	return c
}

// atLeastOneRecord requires a record.
func atLeastOneRecord(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage(fmt.Errorf("%s takes at least one ID or file; see: %s --help", c.Name(), c.CommandPath()))
	}
	return nil
}

// formOf chooses the page's format by the file's extension.
func formOf(out string) (func(io.Writer, page.Document) error, error) {
	switch ending := strings.ToLower(filepath.Ext(out)); {
	case out == "":
		return nil, errors.New("say which file to write: -o report.html or -o report.md")
	case ending == ".html" || ending == ".htm":
		return page.HTML, nil
	case ending == ".md" || ending == ".markdown":
		return page.Markdown, nil
	case ending == ".pdf":
		return nil, fmt.Errorf("%s: PDF is not written; write an .html file and print it in a browser", out)
	}
	return nil, fmt.Errorf("%s: the ending says neither .html nor .md", out)
}

// checkForm refuses a --report that cannot be written as a page; "" asks for none.
func checkForm(report string) error {
	if report == "" {
		return nil
	}
	if _, err := formOf(report); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// writePage writes a result's page into the file of --report, if one was asked for.
func (sh *shell) writePage(report string, of interface{ Page() page.Document }) error {
	if report == "" {
		return nil
	}
	write, err := formOf(report)
	if err != nil {
		return err
	}
	if err := writeWhole(report, func(w io.Writer) error { return write(w, of.Page()) }); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	fmt.Fprintf(sh.stderr, "written: %s\n", report)
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
			return page.Document{}, usage(fmt.Errorf("%s is of another tool and %s is a run of ours: compare them with ceiling compare", name,
				names[0]))
		}
		file, err := sh.findRecord(name)
		switch {
		case err != nil:
			return page.Document{}, err
		case file.IsPlan() && len(names) > 1:
			return page.Document{}, usage(fmt.Errorf("%s is a plan, which has a page of its own: report it alone", name))
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
	return document, usage(err)
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
			return page.Document{}, usage(fmt.Errorf("%s is not a file and %s is of another tool: compare them with ceiling compare", name,
				names[0]))
		}
		var err error
		if results[i], err = readForeign(name); err != nil {
			return page.Document{}, err
		}
	}
	return page.Foreign(names, results), nil
}

// writeWhole writes a file atomically.
func writeWhole(path string, content func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".ceiling-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no-op after the rename
	err = content(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
