package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/secret"
	"ceiling/record"
	"ceiling/show/importer"
	"ceiling/show/report"
	"ceiling/verdict/prose"
)

// comparison is the job that compares two existing results.
type comparison struct {
	a, b, failOn string
	outputFlags
}

func (o *comparison) do(_ context.Context, sh *shell) error {
	h := hider(sh)
	sideA, err := finished(sh, o.a, h)
	if err != nil {
		return err
	}
	sideB, err := finished(sh, o.b, h)
	if err != nil {
		return err
	}
	c := plan.CompareFinished(sideA, sideB)
	if o.failOn != "" {
		conditions, err := plan.ParseGate(o.failOn)
		if err != nil {
			return command.Usage(err)
		}
		sh.Exit = plan.Gate(&c, conditions)
	} else if c.Incomparable != nil {
		sh.Exit = exit.Invalid
	}
	if o.json {
		return sh.JSON(prose.Spell(c))
	}
	return report.Comparison(sh.Stdout, &c, records.Layout(sh.Stdout, o.verbose))
}

// hider redacts as runs do, so that a clear-text secret on one side equals the redacted one on
// the other.
func hider(sh *shell) *secret.Hider {
	return secret.New(func() []byte {
		key, err := record.SecretKey(os.Getenv)
		if err != nil {
			fmt.Fprintf(sh.Stderr, "ceiling: equal secrets of the two sides may look different: %s\n", command.OneLine(err))
		}
		return key
	})
}

// finished loads one side: a run, all counted runs of a plan, or another tool's result.
func finished(sh *shell, name string, h *secret.Hider) (plan.Finished, error) {
	if isFile(name) {
		return importedResult(name, h)
	}
	file, err := records.Find(&sh.Shell, name)
	if err != nil {
		return plan.Finished{}, err
	}
	if !file.IsPlan() {
		k, err := kept(file, h)
		return plan.FinishedRuns([]plan.Kept{k}), err
	}
	p, err := record.OpenPlan(file)
	if err != nil {
		return plan.Finished{}, err
	}
	var runs []plan.Kept
	for _, m := range p.Runs {
		if m.Run == "" || m.WarmupRun {
			continue
		}
		of, there := p.Record(m.Run)
		if !there {
			return plan.Finished{}, fmt.Errorf("%s has no record of run %s", file, m.Run)
		}
		k, err := kept(of, h)
		if err != nil {
			return plan.Finished{}, err
		}
		runs = append(runs, k)
	}
	return plan.FinishedRuns(runs), nil
}

func kept(f record.File, h *secret.Hider) (plan.Kept, error) {
	c, err := record.Read(f)
	if err != nil {
		return plan.Kept{}, err
	}
	shown := c.Run.Concealed(h)
	k := plan.Kept{Run: &shown, Series: &c.Series}
	k.Response, err = c.Histogram("response")
	return k, err
}

// readForeign reads another tool's file.
func readForeign(name string) (importer.Result, error) {
	file, err := os.Open(name)
	if err != nil {
		return importer.Result{}, err
	}
	defer file.Close()
	r, err := importer.Read(file)
	if err != nil {
		return r, command.Usage(fmt.Errorf("%s: %w", name, err))
	}
	return r, nil
}

// importedResult converts another tool's file, as far as it goes.
func importedResult(name string, h *secret.Hider) (plan.Finished, error) {
	r, err := readForeign(name)
	if err != nil {
		return plan.Finished{}, err
	}
	r.Target = h.URL(r.Target)
	f := plan.Figures{Name: name, PerS: r.CompletedPerS, Open: r.Loop == importer.Open, ElapsedS: r.DurationS}
	if ns, ok := r.Quantile(.5); ok {
		f.P50Ns = float64(ns)
	}
	if ns, ok := r.Quantile(.99); ok {
		f.P99Ns = float64(ns)
	}
	if all := r.Requests + r.Failed(); all > 0 {
		f.BadShare = float64(r.Failed()) / float64(all)
	}
	var caveats []record.Statement
	for _, text := range r.Caveats {
		caveats = append(caveats, record.State("comparison.imported", record.Values{"text": text}))
	}
	return plan.Finished{
		Label: name, Figures: []plan.Figures{f}, Facts: [][]plan.Fact{plan.ToolFacts(r.Tool, r.Loop, r.From, r.Connections, r.Target)},
		Caveats: caveats, Decide: r.Target,
	}, nil
}

// isKept reports whether an argument names a record or another tool's file.
func isKept(name string) bool {
	if strings.Contains(name, "://") {
		return false
	}
	if name == "-" {
		return true
	}
	if _, err := records.InStore(name); err == nil {
		return true
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && !spec.IsExperimentFile(name)
}
