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
	format, out, of, table, to string
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
  hdr         HdrHistogram log, nanoseconds
  vegeta      the JSON report of vegeta
  prometheus  OpenMetrics text
  otlp        OTLP metrics in JSON; --to sends them to a collector
  pprof       a profile of ceiling profile; --of on-cpu, off-cpu, block…
  folded      the same as folded stacks, for flame graphs
  attachment  other saved files: --of cpu.folded, off-cpu.folded, cpu.pprof.gz

docs/export.md describes the formats and their limits.`,
		Example: `  ceiling export x7f2 --format csv -o load.csv
  ceiling export ./x7f2.ndjson.gz --format hgrm --of service
  ceiling export x7f2 --format otlp --to http://127.0.0.1:4318`,
		Args:              command.Exactly(1, "one ID, file or -"),
		ValidArgsFunction: completeRuns,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return command.Usage(err)
			}
			return sh.export(c, args[0], &f)
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.StringVar(&f.format, "format", export.FormatJSON, "one of these formats")
	p.StringVarP(&f.out, "output", "o", "-", "file, written atomically; - is standard output")
	p.StringVar(&f.of, "of", "", "hgrm, hdr: "+strings.Join(export.Latencies(), ", ")+" (hgrm: response; hdr: all three); pprof, folded: kind")
	p.StringVar(&f.table, "table", "", "kind of row: load, cpu, process, sockets… (csv: load, ndjson: all); of a plan: runs, effects")
	p.StringVar(&f.to, "to", "", "otlp: URL of a collector; headers from OTEL_EXPORTER_OTLP_HEADERS")
	of := append(export.Latencies(), record.ProfileKinds()...)
	for flag, values := range map[string][]string{"format": export.Formats(), "of": of, "table": slices.Concat(export.Tables(), export.PlanTables())} {
		if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // an unknown flag name: a bug in this function
		}
	}
	return c
}

// ofValues are the valid values of --of; nil for any: the record defines the names of its
// attachments.
func (f *exportFlags) ofValues() []string {
	switch f.format {
	case export.FormatAttachment:
		return nil
	case export.FormatPprof, export.FormatFolded:
		return record.ProfileKinds()
	}
	return export.Latencies()
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
		{"--of", f.of, []string{export.FormatHGRM, export.FormatHDR, export.FormatPprof, export.FormatFolded, export.FormatAttachment}, f.ofValues()},
		{"--table", f.table, []string{export.FormatCSV, export.FormatNDJSON}, nil},
		{"--to", f.to, []string{export.FormatOTLP}, nil},
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
	switch {
	case f.format == export.FormatAttachment && f.of == "":
		return errors.New("--format attachment: name it with --of: cpu.folded, off-cpu.folded, cpu.pprof.gz")
	case f.to == "":
		return nil
	case f.out != "-":
		return errors.New("--to and -o: give one of them")
	}
	if err := (&export.Collector{URL: f.to}).Check(); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	return nil
}

func (sh *shell) export(c *cobra.Command, name string, f *exportFlags) error {
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
	if f.to != "" {
		header, err := export.ParseHeader(os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"))
		if err != nil {
			return command.Usage(fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err))
		}
		err = export.Send(c.Context(), export.Collector{URL: f.to, Header: header}, source)
		sh.tell(file, source.Problems)
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
	if f.format != export.FormatJSON || f.to != "" {
		return command.Usage(fmt.Errorf("%s is a %s of %d runs, and has no %s of its own; export one of its runs (%s/RUN), or the whole with --format json or csv", name, p.Experiment.Kind, len(p.Runs), f.format, p.ID))
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
	case export.FormatHDR:
		if f.of != "" {
			return export.HDR(out, s, f.of)
		}
		return export.HDR(out, s, export.Latencies()...)
	case export.FormatVegeta:
		return export.Vegeta(out, s)
	case export.FormatPrometheus:
		return export.Prometheus(out, s)
	case export.FormatOTLP:
		return export.OTLP(out, s)
	case export.FormatPprof:
		return written(out)(s.Pprof(orElse(f.of, record.ProfileOnCPU)))
	case export.FormatFolded:
		return written(out)(s.Folded(orElse(f.of, record.ProfileOnCPU)))
	case export.FormatAttachment:
		return written(out)(s.Attachment(f.of))
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
