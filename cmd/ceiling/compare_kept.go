package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"ceiling/experiment/plan"
	"ceiling/internal/secret"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/show/importer"
	"ceiling/show/report"
)

// compareKept holds two results against each other that were measured before.
func (sh *shell) compareKept(a, b string, f *runFlags, o *compareFlags) error {
	h := sh.hider()
	sideA, err := finished(a, h)
	if err != nil {
		return err
	}
	sideB, err := finished(b, h)
	if err != nil {
		return err
	}
	c := plan.CompareFinished(sideA, sideB)
	if o.asked.FailOn != "" {
		conditions, err := plan.ParseGate(o.asked.FailOn)
		if err != nil {
			return usage(err)
		}
		sh.exit = plan.Gate(&c, conditions)
	} else if c.Incomparable != "" {
		sh.exit = run.ExitInvalid
	}
	if f.json {
		e := json.NewEncoder(sh.stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(&c)
	}
	return report.Comparison(sh.stdout, &c)
}

// hider hides as runs do, so that what is in clear on one side looks like the same
// that is hidden on the other.
func (sh *shell) hider() *secret.Hider {
	return secret.New(func() []byte {
		key, err := record.SecretKey(os.Getenv)
		if err != nil {
			fmt.Fprintf(sh.stderr, "ceiling: equal secrets of the two sides may look different: %s\n", oneLine(err))
		}
		return key
	})
}

// finished is one side: a run, all counted runs of a plan, or the result of
// another tool.
func finished(name string, h *secret.Hider) (plan.Finished, error) {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return foreignResult(name, h)
	}
	dir, err := findRecord(name)
	if err != nil {
		return plan.Finished{}, err
	}
	if !record.IsPlan(dir) {
		k, err := kept(dir, h)
		return plan.FinishedRuns([]plan.Kept{k}), err
	}
	p, err := record.OpenPlan(dir)
	if err != nil {
		return plan.Finished{}, err
	}
	var runs []plan.Kept
	for _, m := range p.Runs {
		if m.Run == "" || m.Settle {
			continue
		}
		k, err := kept(filepath.Join(dir, "runs", m.Run), h)
		if err != nil {
			return plan.Finished{}, err
		}
		runs = append(runs, k)
	}
	return plan.FinishedRuns(runs), nil
}

func kept(dir string, h *secret.Hider) (plan.Kept, error) {
	r, series, err := record.Open(dir)
	if err != nil {
		return plan.Kept{}, err
	}
	shown := r.Concealed(h)
	k := plan.Kept{Run: &shown, Series: &series}
	if !r.Unfinished {
		if k.Response, err = record.ReadHistogram(dir, "response"); err != nil {
			return k, err
		}
	}
	return k, nil
}

// readForeign reads a file that another tool has written.
func readForeign(name string) (importer.Result, error) {
	file, err := os.Open(name)
	if err != nil {
		return importer.Result{}, err
	}
	defer file.Close()
	r, err := importer.Read(file)
	if err != nil {
		return r, usage(fmt.Errorf("%s: %w", name, err))
	}
	return r, nil
}

// foreignResult is what another tool has written, as far as it goes.
func foreignResult(name string, h *secret.Hider) (plan.Finished, error) {
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
	return plan.Finished{
		Label: name, Figures: []plan.Figures{f}, Facts: [][]plan.Fact{plan.ToolFacts(r.Tool, r.Loop, r.From, r.Connections, r.Target)}, Caveats: r.Caveats, Decide: r.Target,
	}, nil
}
