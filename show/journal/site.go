package journal

import (
	"fmt"
	"html/template"
	"maps"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/page"

	"ceiling/show/chart"
	"ceiling/verdict/prose"
)

// Site is the pages of a journal; building is deterministic, byte for byte.
type Site struct {
	// Files are by path, with slashes.
	Files map[string][]byte
	// Warnings are not mistakes but deserve a look.
	Warnings []Mistake
}

// IndexPage is the start page.
const IndexPage = "index.html"

// Build renders all pages. If the entries have mistakes, it returns all of them together (type
// Mistakes) and renders nothing.
func Build(j *Journal) (*Site, error) {
	s := &Site{Files: map[string][]byte{}, Warnings: slices.Clone(j.Warnings)}
	var wrong Mistakes
	texts := map[*Entry]*written{}
	if j.premise != nil {
		w := j.write(j.premise)
		texts[j.premise], wrong = w, w.wrong
		maps.Copy(s.Files, w.files)
	}
	for _, e := range j.Entries {
		w := j.write(e)
		texts[e] = w
		wrong = append(wrong, w.wrong...)
		s.Warnings = append(s.Warnings, w.warnings...)
		s.Warnings = append(s.Warnings, e.elsewhere()...)
		maps.Copy(s.Files, w.files)
	}
	for e, w := range texts {
		for _, l := range w.links {
			if !texts[l.entry].anchors[l.anchor] {
				wrong.add(e.File, l.line, "link to %s: it has no heading %q%s", l.entry.Name, clip(l.anchor),
					nearTo(l.anchor, keysOf(texts[l.entry].anchors)))
			}
		}
	}
	wrong = append(wrong, j.sameRecords()...)
	if err := wrong.sorted(); err != nil {
		return nil, err
	}
	byPlace(s.Warnings)
	if err := s.pages(j, texts); err != nil {
		return nil, fmt.Errorf("build journal: %w", err)
	}
	return s, nil
}

// elsewhere warns about records that a clone of the journal will lack, and about records that
// should not be built on.
func (e *Entry) elsewhere() []Mistake {
	var list []Mistake
	for _, r := range e.Records {
		switch {
		case r.Pending():
		case !r.Here:
			list = append(list, Mistake{e.File, r.Line,
				fmt.Sprintf("%s is in the store of this machine alone; put it in with: ceiling journal add %s %s", r.ID, e.Name, r.ID)})
		}
		if r.Run != nil && r.Run.Unfinished && e.Status == Done {
			list = append(list, Mistake{e.File, r.Line,
				fmt.Sprintf("%s was cut off before it had a result: its figures cover the time until then", r.ID)})
		}
		if r.Plan != nil && r.Plan.Ended == "" && e.Status == Done {
			list = append(list, Mistake{e.File, r.Line,
				fmt.Sprintf("%s was interrupted after %d runs; %s", r.ID, len(r.Plan.Runs), prose.Text(r.Plan.Onward()))})
		}
	}
	return list
}

// sameRecords finds different records with the same ID: they would share a page.
func (j *Journal) sameRecords() Mistakes {
	var wrong Mistakes
	seen := map[string]*Record{}
	for _, e := range j.Entries {
		for _, r := range e.Records {
			if other := seen[r.ID]; !r.Pending() && other != nil && !r.same(other) {
				wrong.add(e.File, r.Line, "runs: %s is another record than that in %s", r.ID, other.File)
			}
			seen[r.ID] = r
		}
	}
	return wrong
}

func (s *Site) pages(j *Journal, texts map[*Entry]*written) error {
	var err error
	if s.Files[IndexPage], err = j.index(texts, texts[j.premise]); err != nil {
		return err
	}
	if s.Files[FeedPage], err = j.feed(texts); err != nil {
		return err
	}
	if err := s.ladderPages(j); err != nil {
		return err
	}
	for i, e := range j.Entries {
		html, err := j.entryPage(i, texts[e])
		if err != nil {
			return fmt.Errorf("%s: %w", e.File, err)
		}
		s.Files[entryPage(e)] = html
	}
	for _, u := range j.used() {
		if err := s.record(u); err != nil {
			return fmt.Errorf("%s: %w", u.record.File, err)
		}
	}
	return nil
}

// use is a record and the entries that refer to it.
type use struct {
	record  *Record
	entries []*Entry
}

// used returns every record once.
func (j *Journal) used() []*use {
	var list []*use
	by := map[string]*use{}
	for _, e := range j.Entries {
		for _, r := range e.Records {
			if r.Pending() {
				continue
			}
			if by[r.ID] == nil {
				by[r.ID] = &use{record: r}
				list = append(list, by[r.ID])
			}
			if !slices.Contains(by[r.ID].entries, e) {
				by[r.ID].entries = append(by[r.ID].entries, e)
			}
		}
	}
	return list
}

// record renders the page of a run, or of a plan and its runs.
func (s *Site) record(u *use) error {
	var d page.Document
	var err error
	var below []link
	if u.record.Plan != nil {
		if u.record.Plan.Sweep != nil {
			if s.Files[csvPage(u.record.ID)], err = u.entries[0].pointsCSV(u.record); err != nil {
				return err
			}
		}
		if d, err = page.Plan(u.record.Plan); err == nil {
			below, err = s.planned(u)
		}
	} else {
		d, err = page.Runs([]chart.Run{u.record.shown()})
	}
	if err != nil {
		return err
	}
	return s.recordPage(u, u.record, d, below, nil)
}

// planned renders a page for each run of a plan that the journal has.
func (s *Site) planned(u *use) ([]link, error) {
	var list []link
	for i := range u.record.Plan.Runs {
		m := &u.record.Plan.Runs[i]
		f, there := u.record.Plan.Record(m.Run)
		if !there {
			continue
		}
		r, err := openRecord(f)
		if err != nil {
			return nil, err
		}
		if r.Run == nil || r.ID != m.Run {
			return nil, fmt.Errorf("%s is not the run %s", f, m.Run)
		}
		r.LeftOut = []record.Omission{}
		for _, l := range u.record.LeftOut {
			if l.What == series {
				r.LeftOut = append(r.LeftOut, record.Omission{What: series, Bytes: l.Bytes / int64(max(len(u.record.Plan.Records()), 1)), Why: l.Why})
			}
		}
		d, err := page.Runs([]chart.Run{r.shown()})
		if err != nil {
			return nil, err
		}
		if err := s.recordPage(u, r, d, nil, u.record); err != nil {
			return nil, err
		}
		list = append(list, link{Name: fmt.Sprintf("Run %d", m.Number), To: r.ID + ".html",
			Says: page.Shown(fmt.Sprintf("%s, %s, %s", unit.FormatRate(m.CompletedPerS), m.Outcome, m.Bottleneck))})
	}
	return list, nil
}

type link struct{ Name, To, Says string }

// recordPage adds the page of one record.
func (s *Site) recordPage(u *use, r *Record, d page.Document, below []link, of *Record) error {
	sections, err := page.Sections(d)
	if err != nil {
		return err
	}
	data := struct {
		Sections template.HTML
		Entries  []link
		Runs     []link
		LeftOut  []string
		CSV      string
	}{Sections: sections, Runs: below}
	if r.Plan != nil && r.Plan.Sweep != nil {
		data.CSV = r.ID + ".csv"
	}
	for _, e := range u.entries {
		data.Entries = append(data.Entries, link{Name: e.Number + " " + e.Title, To: "../" + entryPage(e)})
	}
	for _, l := range r.LeftOut {
		data.LeftOut = append(data.LeftOut, fmt.Sprintf("%s (%s): %s.", l.What, unit.FormatBytesSI(l.Bytes), l.Why))
	}
	main, err := execute("record", data)
	if err != nil {
		return err
	}
	l := layout{Title: d.Title, Heading: d.Subtitle, Lead: d.Lead, Up: "../", Main: main, Footer: d.Footer,
		Trail: []trail{{"Journal", "../" + IndexPage}}, Card: shareCard{Kind: "article"}}
	if of != nil {
		l.Trail = append(l.Trail, trail{"Plan " + of.ID, of.ID + ".html"})
	}
	l.Trail = append(l.Trail, trail{r.ID, ""})
	to := recordPage(r.ID)
	html, err := l.whole()
	if err != nil {
		return err
	}
	if old, there := s.Files[to]; there && string(old) != string(html) {
		return fmt.Errorf("two records have the ID %s", r.ID)
	}
	s.Files[to] = html
	return nil
}

// kindOf is the record's type in a list.
func (r *Record) kindOf() string {
	if r.Plan != nil {
		return map[string]string{"find": "search", "prove": "proof", "compare": "comparison", "factorial": "factorial experiment"}[r.Plan.Experiment.Kind]
	}
	return "run"
}

// row is a record in an entry page's list.
type row struct{ Name, ID, To, Kind, When, Says string }

func rowOf(r *Record) row {
	out := row{Name: r.Name, ID: r.ID}
	switch {
	case r.Pending():
		out.Says = "not measured yet"
		return out
	case r.Plan != nil:
		if out.Kind = r.kindOf(); out.Kind == "" {
			out.Kind = "sweep"
		}
		out.Kind += fmt.Sprintf(" of %d runs", len(r.Plan.Runs))
		out.When, out.Says = r.Plan.Created.UTC().Format("2 January 2006, 15:04 UTC"), prose.Text(r.Plan.Says())
	default:
		v := &r.Run.Verdict
		out.Kind = "run"
		out.When = r.Run.Started.UTC().Format("2 January 2006, 15:04 UTC")
		out.Says = fmt.Sprintf("%s, %s, bottleneck: %s", unit.FormatRate(r.Run.Rate.CompletedPerS), v.Outcome, v.Bottleneck)
		if v.Outcome == record.Invalid {
			out.Says = "invalid: " + prose.Sentence(v.Because)
		}
	}
	out.To, out.Says = recordPage(r.ID), page.Shown(out.Says)
	return out
}
