package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/experiment/plan"
	"ceiling/internal/exit"
	"ceiling/record"
	"ceiling/show/importer"
	"ceiling/show/report"
	"ceiling/verdict"
	"ceiling/verdict/prose"
)

func newJudge(sh *shell) *cobra.Command {
	var asJSON, explain, verbose bool
	c := &cobra.Command{
		Use:   "judge RECORD | FILE | -",
		Short: "Recompute the verdict of a record, or judge another tool's output",
		Long: `Judges a finished run, or every run of a plan, with the current rules. It does
not change the record.

A FILE, or "-" for standard input, is the output of another load generator: the
text of wrk, wrk2, go-wrk, hey, ab, h2load or autocannon, the JSON of oha, ghz,
k6 or vegeta, or vegeta's results, also with what a log puts before each line.
It is checked for what cannot be: more requests in flight than connections carry
(Little's law), bytes that do not fit the rate, mistaken units, failed requests.

--explain prints every rule with its result, in order, and marks the one that
decided.`,
		Example: `  ceiling judge x7f2
  ceiling judge --explain x7f2
  wrk -t2 -c64 -d10s --latency http://127.0.0.1:8080/ | ceiling judge -
  ceiling judge results.json`,
		Args:              command.Exactly(1, "one record (ID or file), file of another tool, or -"),
		ValidArgsFunction: completeRuns,
		RunE: func(_ *cobra.Command, args []string) error {
			if explain {
				return sh.explain(args[0], asJSON)
			}
			if args[0] == "-" || isFile(args[0]) {
				return sh.judgeFile(args[0], asJSON, verbose)
			}
			file, err := records.Find(&sh.Shell, args[0])
			if err != nil {
				return err
			}
			return sh.judgeRecord(file, asJSON, verbose)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON document with the new verdict")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print all of the text")
	c.Flags().BoolVar(&explain, "explain", false, "print every rule's result, and which one decided (records only)")
	return c
}

func (sh *shell) judgeRecord(file record.File, asJSON, verbose bool) error {
	if file.IsPlan() {
		return sh.judgePlan(file, asJSON, verbose)
	}
	r, series, err := record.Open(file)
	if err != nil {
		return err
	}
	for _, problem := range series.Problems {
		fmt.Fprintf(sh.Stderr, "ceiling: %s: %s\n", file, problem)
	}
	r.Verdict = verdict.Judge(r, &series)
	r.Exit = verdict.ExitOf(r)
	sh.Exit = r.Exit
	if asJSON {
		return report.JSON(sh.Stdout, r)
	}
	return report.Text(sh.Stdout, r, records.Layout(sh.Stdout, verbose))
}

// explain shows how the verdict on a run was reached.
func (sh *shell) explain(name string, asJSON bool) error {
	if isFile(name) {
		return command.Usage(fmt.Errorf("--explain needs a ceiling record; %s is another tool's result", name))
	}
	file, err := records.Find(&sh.Shell, name)
	if err != nil {
		return err
	}
	if file.IsPlan() {
		return command.Usage(fmt.Errorf("%s holds several runs; explain one of them: ceiling judge --explain %s/ID", name, name))
	}
	r, series, err := record.Open(file)
	if err != nil {
		return err
	}
	d, v := verdict.Explain(r, &series)
	r.Verdict = v
	sh.Exit = verdict.ExitOf(r)
	if !asJSON {
		return sh.Folded(func(w io.Writer) error { return report.Decision(w, &d, &v, records.Layout(sh.Stdout, true)) })
	}
	return sh.JSON(struct {
		Schema   string           `json:"schema"`
		ID       string           `json:"id"`
		Decision verdict.Decision `json:"decision"`
		Verdict  record.Verdict   `json:"verdict"`
	}{"ceiling.decision/2", r.ID, d, prose.Spell(v)})
}

// judgePlan rejudges every run of a plan and derives its answer again.
func (sh *shell) judgePlan(file record.File, asJSON, verbose bool) error {
	p, err := record.OpenPlan(file)
	if err != nil {
		return err
	}
	for _, problem := range p.Problems {
		fmt.Fprintf(sh.Stderr, "ceiling: %s: %s\n", file, problem)
	}
	if err := record.ReadHistograms(file, p.Runs); err != nil {
		return err
	}
	for i := range p.Runs {
		m := &p.Runs[i]
		if m.Run == "" {
			continue
		}
		of, there := p.Record(m.Run)
		if !there {
			return fmt.Errorf("%s has no record of run %s", file, m.Run)
		}
		r, series, err := record.Open(of)
		if err != nil {
			return err
		}
		m.Judged(verdict.Judge(r, &series))
	}
	if len(p.Runs) > 0 {
		plan.Conclude(p)
	}
	sh.Exit = p.Exit
	if asJSON {
		return report.PlanJSON(sh.Stdout, p)
	}
	return report.Plan(sh.Stdout, p, records.Layout(sh.Stdout, verbose))
}

// judgeFile judges a record or another tool's output, from a file or, as "-", from standard input.
func (sh *shell) judgeFile(name string, asJSON, verbose bool) error {
	var in io.Reader = sh.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return command.Usage(err)
		}
		defer f.Close()
		in = f
	}
	buffered := bufio.NewReader(in)
	head, err := buffered.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return command.Usage(fmt.Errorf("%s: %w", name, err))
	}
	if record.Is(head) {
		file, err := record.ReadFile(buffered)
		if err != nil {
			return command.Usage(err)
		}
		return sh.judgeRecord(file.Named(name), asJSON, verbose)
	}
	r, err := importer.Read(buffered)
	if err != nil {
		return command.Usage(fmt.Errorf("%s: %w", name, err))
	}
	if r.Invalid {
		sh.Exit = exit.Invalid
	}
	if asJSON {
		return report.WriteImportedJSON(sh.Stdout, name, &r)
	}
	return report.Imported(sh.Stdout, name, &r, records.Layout(sh.Stdout, false))
}
