package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/record"
	"ceiling/show/export"
	"ceiling/show/report"
)

// exportFlags are the flags of an export as typed.
type exportFlags struct {
	format, out, of, table string
}

func newExport(sh *shell) *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use:   "export ID",
		Short: "Export a run in the format of another tool",
		Long: `Exports a saved run, given by its ID, part of the ID, or its file:

  json        the run's document, with its histograms (HdrHistogram V2)
  ndjson      the rows of its series, one JSON object per line
  csv         one kind of row as a table, selected by --table; for a plan its
              runs, for a factorial experiment its effects
  hgrm        HdrHistogram's percentile table, milliseconds; --of selects the latency
  prometheus  OpenMetrics text
  pprof       a profile of ceiling profile; --of on-cpu, off-cpu, block…
  folded      the same as folded stacks, for flame graphs

docs/export.md describes the formats and their limits.`,
		Example: `  ceiling export x7f2 --format csv -o load.csv
  ceiling export ./x7f2.ndjson.gz --format hgrm --of service`,
		Args:              command.Exactly(1, "one ID, file or -"),
		ValidArgsFunction: completeRuns,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return command.Usage(err)
			}
			return sh.export(args[0], &f)
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.StringVar(&f.format, "format", export.FormatJSON, "one of these formats")
	p.StringVarP(&f.out, "output", "o", "-", "file, written atomically; - is standard output")
	p.StringVar(&f.of, "of", "", "hgrm: "+strings.Join(export.Latencies(), ", ")+" (default: response); pprof, folded: kind")
	p.StringVar(&f.table, "table", "", "kind of row: load, cpu, process, sockets… (csv: load, ndjson: all); of a plan: runs, effects")
	of := append(export.Latencies(), record.ProfileKinds()...)
	for flag, values := range map[string][]string{"format": export.Formats(), "of": of, "table": slices.Concat(export.Tables(), export.PlanTables())} {
		if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // an unknown flag name: a bug in this function
		}
	}
	return c
}

// ofValues are the valid values of --of.
func (f *exportFlags) ofValues() []string {
	if f.format == export.FormatHGRM {
		return export.Latencies()
	}
	return record.ProfileKinds()
}

// check rejects incompatible flags.
func (f *exportFlags) check() error {
	if !slices.Contains(export.Formats(), f.format) {
		return fmt.Errorf("invalid --format %q (use one of %s)", f.format, strings.Join(export.Formats(), ", "))
	}
	if slices.Contains(export.Formats(), f.out) {
		return fmt.Errorf("-o %s: that is a format, and -o names a file; give --format %[1]s, and -o FILE where it is not for the standard output", f.out)
	}
	for _, o := range []struct {
		flag, value string
		goesWith    []string
		values      []string
	}{
		{"--of", f.of, []string{export.FormatHGRM, export.FormatPprof, export.FormatFolded}, f.ofValues()},
		{"--table", f.table, []string{export.FormatCSV, export.FormatNDJSON}, nil},
	} {
		if o.value == "" {
			continue
		}
		if !slices.Contains(o.goesWith, f.format) {
			return fmt.Errorf("%s goes with --format %s, not with %s", o.flag, strings.Join(o.goesWith, " or "), f.format)
		}
		if o.values != nil && !slices.Contains(o.values, o.value) {
			return fmt.Errorf("%s: unknown value %q; use one of %s", o.flag, o.value, strings.Join(o.values, ", "))
		}
	}
	tables := append(export.Tables(), record.KindNotMeasured) // a table of its own in NDJSON alone
	if f.format == export.FormatCSV {
		tables = slices.Concat(export.Tables(), export.PlanTables())
	}
	if f.table != "" && !slices.Contains(tables, f.table) {
		return fmt.Errorf("--table: unknown table %q; use one of %s; for a plan %s", f.table, strings.Join(export.Tables(), ", "),
			strings.Join(export.PlanTables(), ", "))
	}
	return nil
}

func (sh *shell) export(name string, f *exportFlags) error {
	file, err := records.Find(&sh.Shell, name)
	if err != nil {
		return err
	}
	if file.IsPlan() {
		return exportPlan(sh, file, name, f)
	}
	if f.format == export.FormatCSV || f.format == export.FormatNDJSON {
		return exportRows(sh, file, f)
	}
	source, err := export.Open(file)
	if err != nil {
		return err
	}
	err = sh.write(f.out, func(out io.Writer) error { return f.write(out, source) })
	sh.tell(file, source.Problems)
	return err
}

// exportPlan writes a plan's document; its runs are separate records.
func exportPlan(sh *shell, file record.File, name string, f *exportFlags) error {
	p, err := record.OpenPlan(file)
	if err != nil {
		return err
	}
	if f.format == export.FormatCSV {
		err := sh.write(f.out, func(out io.Writer) error { return export.PlanCSV(out, p, orElse(f.table, export.TableRuns)) })
		return command.Usage(err)
	}
	if f.format != export.FormatJSON {
		return command.Usage(fmt.Errorf("%s is a %s of %d runs, and has no %s itself; export one of its runs (%s/RUN), or the whole with --format json or csv", name, p.Experiment.Kind, len(p.Runs), f.format, p.ID))
	}
	return sh.write(f.out, func(out io.Writer) error { return report.PlanJSON(out, p) })
}

// write writes a format derived from the run's documents.
func (f *exportFlags) write(out io.Writer, s *export.Source) error {
	switch f.format {
	case export.FormatJSON:
		return export.JSON(out, s)
	case export.FormatHGRM:
		return export.HGRM(out, s, orElse(f.of, "response"))
	case export.FormatPrometheus:
		return export.Prometheus(out, s)
	case export.FormatPprof:
		return written(out)(s.Pprof(orElse(f.of, record.ProfileOnCPU)))
	case export.FormatFolded:
		return written(out)(s.Folded(orElse(f.of, record.ProfileOnCPU)))
	}
	return fmt.Errorf("no writer for %s", f.format)
}

func written(out io.Writer) func([]byte, error) error {
	return func(b []byte, err error) error {
		if err != nil {
			return err
		}
		_, err = out.Write(b)
		return err
	}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// exportRows writes a format derived from the series.
func exportRows(sh *shell, file record.File, f *exportFlags) error {
	rows, err := record.OpenRows(file)
	if err != nil {
		return err
	}
	defer rows.Close()
	err = sh.write(f.out, func(out io.Writer) error {
		if f.format == export.FormatCSV {
			return export.CSV(out, rows, orElse(f.table, record.KindLoad))
		}
		return export.NDJSON(out, rows, f.table)
	})
	sh.tell(file, rows.Problems)
	return err
}

func (sh *shell) tell(file record.File, problems []string) {
	for _, p := range problems {
		fmt.Fprintf(sh.Stderr, "ceiling: %s: %s\n", file, p)
	}
}

// write writes a file atomically; it writes directly to an existing special file (a pipe,
// /dev/null).
func (sh *shell) write(name string, content func(io.Writer) error) (err error) {
	if name == "-" {
		out := bufio.NewWriter(sh.Stdout)
		return errors.Join(content(out), out.Flush())
	}
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		return command.Usage(fmt.Errorf("-o: %s is a directory; give the name of a file", name))
	}
	if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return command.Usage(fmt.Errorf("-o: %w", err))
		}
		return errors.Join(content(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".export-*.part")
	if err != nil {
		return command.Usage(fmt.Errorf("-o: %w", err))
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name()) // best effort: it is a dot file
		}
	}()
	if err := errors.Join(content(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
