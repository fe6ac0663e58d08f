package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ceiling/plan"
	"ceiling/record"
	"ceiling/report"
	"ceiling/run"
	"ceiling/verdict"
)

func newJudge(sh *shell) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "judge RECORD | POINTS.yaml",
		Short: "Judge a record again, or numbers that came from other tools",
		Long: `Judges a finished run, or every run of a plan, with the rules of today: records
are read, not changed. A YAML file holds points that other tools measured; each
gets its verdict, or what is missing to have one, and what does not add up in it
(docs/points.md).`,
		Example: `  ceiling judge x7f2
  ceiling judge points.yaml`,
		Args:              exactly(1, "one record (ID or directory) or points file"),
		ValidArgsFunction: completeRuns,
		RunE: func(_ *cobra.Command, args []string) error {
			switch filepath.Ext(args[0]) {
			case ".yaml", ".yml":
				if asJSON {
					return usage(fmt.Errorf("--json goes with a record; points are written as text"))
				}
				return sh.judgePoints(args[0])
			}
			return sh.judgeRecord(args[0], asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the JSON document with the new verdict")
	return c
}

func (sh *shell) judgeRecord(name string, asJSON bool) error {
	dir, err := findRecord(name)
	if err != nil {
		return err
	}
	if record.IsPlan(dir) {
		return sh.judgePlan(dir, asJSON)
	}
	r, series, err := record.Open(dir)
	if err != nil {
		return err
	}
	for _, problem := range series.Problems {
		fmt.Fprintf(sh.stderr, "ceiling: %s: %s\n", dir, problem)
	}
	r.Verdict = verdict.Judge(r, &series)
	r.Exit = run.ExitOf(r)
	sh.exit = r.Exit
	if asJSON {
		return record.WriteJSON(sh.stdout, r)
	}
	return report.Text(sh.stdout, r)
}

// judgePlan judges every run of a plan again and concludes from that.
func (sh *shell) judgePlan(dir string, asJSON bool) error {
	p, err := record.OpenPlan(dir)
	if err != nil {
		return err
	}
	if err := record.ReadHistograms(dir, p.Runs); err != nil {
		return err
	}
	for i := range p.Runs {
		m := &p.Runs[i]
		if m.Run == "" {
			continue
		}
		r, series, err := record.Open(filepath.Join(dir, "runs", m.Run))
		if err != nil {
			return err
		}
		v := verdict.Judge(r, &series)
		m.Outcome, m.Ceiling, m.Says, m.SLO, m.OwedShare, m.OtherCores = v.Outcome, v.Ceiling, v.Because, v.SLO, v.OwedShare, v.OtherCores
	}
	if len(p.Runs) > 0 {
		plan.Conclude(p)
	}
	sh.exit = p.Exit
	if asJSON {
		return record.WritePlanJSON(sh.stdout, p)
	}
	return report.Plan(sh.stdout, p)
}

// judgePoints answers exit code 2 where the file has values that could not be
// read: their points are judged without them.
func (sh *shell) judgePoints(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return usage(err)
	}
	defer f.Close()
	points, err := record.ReadPoints(f)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", name, err))
	}
	judged := verdict.JudgePoints(points.Points)
	if err := report.WritePoints(sh.stdout, &points, &judged); err != nil {
		return err
	}
	if n := len(points.Mistakes); n > 0 {
		return usage(fmt.Errorf("%s: %d values could not be read; they are listed above", name, n))
	}
	return nil
}
