package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/experiment/plan"
	"ceiling/record"
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

A FILE, or "-" for standard input, is the output of another load generator: wrk,
wrk2, go-wrk, hey, ab, h2load, oha, autocannon, ghz, k6 or vegeta, as text, JSON
or vegeta's results, also with what a log puts before each line. The verdict
lists what is missing to name the bottleneck, and how to measure it.

--explain prints every rule with its result, in order, and marks the one that
decided.

A YAML file holds points: results of any tool with other measurements from the
same run; each gets a verdict and a list of contradictions (docs/points.md).`,
		Example: `  ceiling judge x7f2
  ceiling judge --explain x7f2
  wrk -t2 -c64 -d10s --latency http://127.0.0.1:8080/ | ceiling judge -
  ceiling judge results.json
  ceiling judge points.yaml`,
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
		v := verdict.Judge(r, &series)
		m.Outcome, m.Bottleneck, m.Because, m.SLO, m.BacklogShare, m.OtherCores = v.Outcome, v.Bottleneck, v.Because, v.SLO, v.BacklogShare,
			v.OtherCores
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

func isYAML(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}
