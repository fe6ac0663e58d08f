package journal

import (
	"errors"
	"fmt"
	"html/template"
	"os"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/ladder"
	"ceiling/show/page"
)

// openLadder reads the ladder of regimes that the front matter names: a file in the entry's own
// folder.
func openLadder(e *Entry) error {
	path, err := pathInside(e, e.Front.Ladder, "ladder: records/ladder.json")
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w; ceiling regimes -o DIR writes DIR/ladder.json", err)
	}
	defer f.Close()
	l, err := ladder.Read(f)
	if err != nil {
		return fmt.Errorf("%s: %w", clip(e.Front.Ladder), err)
	}
	e.ladder = &Record{Name: "ladder", Line: e.Line("ladder"), ID: e.Name + "-ladder", File: record.File{Path: path}, Here: true, Ladder: l}
	return nil
}

var errNoLadder = errors.New("this entry names no ladder; ladder: records/ladder.json in its front matter does that")

// regimeFigures are the figures of one row of the ladder.
type regimeFigures struct {
	source
	row *ladder.Row
}

// regimeOf returns a row of the entry's ladder.
func regimeOf(e *Entry, name string) (*regimeFigures, error) {
	if e.ladder == nil {
		return nil, errNoLadder
	}
	row := e.ladder.Ladder.Row(name)
	if row == nil {
		var names []string
		for i := range e.ladder.Ladder.Rows {
			names = append(names, e.ladder.Ladder.Rows[i].Regime)
		}
		return nil, fmt.Errorf("the ladder has no regime %q%s", clip(name), nearTo(name, names))
	}
	if row.NotMeasured != "" {
		return nil, fmt.Errorf("%s was not measured: %s", name, row.NotMeasured)
	}
	return &regimeFigures{source{entry: e, of: e.ladder}, row}, nil
}

// Rate is the median of its runs with their range, P99 that of the open loop at 70% of it.
// ServerCPU, Fsyncs and Trips are per request, Bytes is the response size, Headroom the
// generator's; Bottleneck and Next are names.
func (r *regimeFigures) Rate() (answer, error) {
	e := &r.row.PerS
	return r.between(kindPerS, record.Estimate{Mid: e.Value, Low: e.Low, High: e.High, Confidence: e.Confidence}, true)
}

func (r *regimeFigures) P99() (answer, error) {
	if r.row.At70 == nil {
		return r.number(kindNs, 0, false)
	}
	return r.number(kindNs, float64(r.row.At70.P99Ns), true)
}

func (r *regimeFigures) ServerCPU() (answer, error) {
	return r.number(kindNs, r.row.Cost.ServerCPUNs, r.row.Cost.ServerCPUNs > 0)
}
func (r *regimeFigures) Bytes() (answer, error) { return r.number(kindBytes, r.row.Cost.Bytes, true) }
func (r *regimeFigures) Fsyncs() (answer, error) {
	return r.optional(r.row.Cost.Fsyncs)
}
func (r *regimeFigures) Trips() (answer, error) { return r.optional(r.row.Cost.RoundTrips) }
func (r *regimeFigures) Headroom() (answer, error) {
	return r.number(kindTimes, r.row.Headroom, r.row.Headroom > 0)
}
func (r *regimeFigures) Bottleneck() (answer, error) { return r.words(r.row.Bottleneck), nil }
func (r *regimeFigures) Next() (answer, error)       { return r.words(r.row.Next), nil }

// Predicted is the rate that Little's law predicts from another row.
func (r *regimeFigures) Predicted() (answer, error) {
	p := r.row.Predicted
	if p == nil {
		return answer{}, fmt.Errorf("nothing is predicted of %s", r.row.Regime)
	}
	return r.words(unit.FormatSI(p.Low) + "–" + unit.FormatSI(p.High) + " req/s"), nil
}

func (r *regimeFigures) optional(v *float64) (answer, error) {
	if v == nil {
		return r.number(kindTwo, 0, false)
	}
	return r.number(kindTwo, *v, true)
}

func (r *regimeFigures) words(text string) answer {
	text = page.Shown(text)
	return answer{text: text, short: text, kind: kindText, of: []*Record{r.of}}
}

// ladderBlock returns the whole table.
func ladderBlock(e *Entry) (answer, error) {
	if e.ladder == nil {
		return answer{}, errNoLadder
	}
	return answer{isBlock: true, of: []*Record{e.ladder}, blocks: []page.Block{e.ladder.Ladder.Table()}}, nil
}

// indexLadder returns the ladder at the top of the index: that of the newest entry that is not
// retracted.
func (j *Journal) indexLadder() (template.HTML, error) {
	for i := len(j.Entries) - 1; i >= 0; i-- {
		e := j.Entries[i]
		if e.ladder == nil || e.Status != Done {
			continue
		}
		table, err := page.Blocks(e.ladder.Ladder.Short())
		if err != nil {
			return "", err
		}
		l := e.ladder.Ladder
		return execute("ladder", struct {
			Table                 template.HTML
			To, Name, Server, Day string
			CPUs, Runs            string
		}{table, entryPage(e), page.Shown(e.Number + " " + e.Title), page.Shown(l.Server), l.Created.Format("2 January 2006"), page.Shown(l.CPUs),
			unit.Plural(l.Rounds, "run", "runs")})
	}
	return "", nil
}

// ladderPages renders the pages of the ladders, with the reason for every bottleneck.
func (s *Site) ladderPages(j *Journal) error {
	for _, e := range j.Entries {
		if e.ladder == nil {
			continue
		}
		if err := s.recordPage(&use{record: e.ladder, entries: []*Entry{e}}, e.ladder, e.ladder.Ladder.Page(), nil, nil); err != nil {
			return fmt.Errorf("%s: %w", e.ladder.File.Path, err)
		}
	}
	return nil
}

// ladder adds the machine of a ladder.
func (s *setup) ladder(r *Record) {
	env := r.Ladder.Environment
	if env == nil {
		return
	}
	s.machines(nil, env, split{})
	server := &s.Rows[len(s.Rows)-1]
	server.Machine, server.Memory, server.Cores = "the same machine", "the same", page.Shown(r.Ladder.CPUs)
	for i := range s.Rows {
		s.Rows[i].Link = "loopback"
	}
	s.add(command{"both", r.Name, "ceiling regimes --server " + page.Shown(r.Ladder.Server)})
}
