package journal

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
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
	s := &Site{Files: map[string][]byte{}}
	var entries []*written // in the journal's order
	premise := new(written)
	if j.premise != nil {
		premise = j.write(j.premise)
	}
	for _, e := range j.Entries {
		entries = append(entries, j.write(e))
		s.Warnings = append(s.Warnings, e.elsewhere()...)
	}
	used, wrong := j.used()
	for _, w := range append(slices.Clone(entries), premise) {
		for _, l := range w.links {
			if there := entries[slices.Index(j.Entries, l.entry)].anchors; !there[l.anchor] {
				w.wrong.add(w.File, l.line, "link to %s: it has no heading %q%s", l.entry.Name, clip(l.anchor), nearTo(l.anchor, slices.Sorted(maps.Keys(there))))
			}
		}
		wrong, s.Warnings = append(wrong, w.wrong...), append(s.Warnings, w.warnings...)
		maps.Copy(s.Files, w.files)
	}
	if err := wrong.sorted(); err != nil {
		return nil, err
	}
	byPlace(s.Warnings)
	if err := s.pages(j, entries, premise.HTML, used); err != nil {
		return nil, fmt.Errorf("build journal: %w", err)
	}
	return s, nil
}

// elsewhere warns about records that a clone of the journal will lack, and about records that
// should not be built on.
func (e *Entry) elsewhere() []Mistake {
	var list Mistakes
	for _, r := range e.Records {
		if !r.Pending() && !r.Here {
			list.add(e.File, r.Line, "%s is only in this machine's store; put it in with: ceiling journal add %s %s", r.ID, e.Name, r.ID)
		}
		if r.Run != nil && r.Run.Unfinished && e.Status == Done {
			list.add(e.File, r.Line, "%s was cut off before it had a result: its figures cover the time until then", r.ID)
		}
		if r.Plan != nil && r.Plan.Ended == "" && e.Status == Done {
			list.add(e.File, r.Line, "%s was interrupted after %d runs; %s", r.ID, len(r.Plan.Runs), prose.Text(r.Plan.Onward()))
		}
	}
	return list
}

func (s *Site) pages(j *Journal, entries []*written, premise template.HTML, used []*use) error {
	var err error
	if s.Files[IndexPage], err = j.index(entries, premise); err != nil {
		return err
	}
	if s.Files[FeedPage], err = j.feed(entries); err != nil {
		return err
	}
	for i, w := range entries {
		if s.Files[w.Page()], err = j.entryPage(entries, i); err != nil {
			return fmt.Errorf("%s: %w", w.File, err)
		}
	}
	for _, u := range used {
		if err := s.record(u); err != nil {
			return fmt.Errorf("%s: %w", u.File, err)
		}
	}
	return nil
}

// use is a record and the entries that refer to it.
type use struct {
	*Record
	Entries []*Entry
}

// used returns every record once. Different records with the same ID are mistakes: they would share
// a page.
func (j *Journal) used() ([]*use, Mistakes) {
	var list []*use
	var wrong Mistakes
	by := map[string]*use{}
	for _, e := range j.Entries {
		for _, r := range e.Records {
			u := by[r.ID]
			switch {
			case r.Pending():
				continue
			case u == nil:
				u = &use{Record: r}
				by[r.ID], list = u, append(list, u)
			case !r.same(u.Record):
				wrong.add(e.File, r.Line, "runs: %s is another record than that in %s", r.ID, u.File)
			}
			if !slices.Contains(u.Entries, e) {
				u.Entries = append(u.Entries, e)
			}
		}
	}
	return list, wrong
}

// record renders the page of a run, or a plan and its runs.
func (s *Site) record(u *use) error {
	var d page.Document
	var err error
	var runs []runLink
	switch {
	case u.Plan != nil:
		if u.CSV() != "" {
			if s.Files[u.CSV()], err = pointsCSV(u.Record); err != nil {
				return err
			}
		}
		if d, err = page.Plan(u.Plan); err == nil {
			runs, err = s.planned(u)
		}
	default:
		d, err = page.Runs([]chart.Run{u.shown()})
	}
	if err != nil {
		return err
	}
	return s.recordPage(u, d, runs, nil)
}

// planned renders a page for each run of a plan that the journal has.
func (s *Site) planned(u *use) ([]runLink, error) {
	var list []runLink
	for i := range u.Plan.Runs {
		m := &u.Plan.Runs[i]
		if _, there := u.Plan.Record(m.Run); !there {
			continue
		}
		opened, err := u.member(m.Run)
		if err != nil {
			return nil, err
		}
		r := *opened
		for _, l := range u.LeftOut {
			if l.What == series {
				r.LeftOut = append(r.LeftOut, record.Omission{What: series, Bytes: l.Bytes / int64(max(len(u.Plan.Records()), 1)), Why: l.Why})
			}
		}
		d, err := page.Runs([]chart.Run{r.shown()})
		if err != nil {
			return nil, err
		}
		if err := s.recordPage(&use{&r, u.Entries}, d, nil, []trail{{"Plan " + u.ID, u.ID + ".html"}}); err != nil {
			return nil, err
		}
		list = append(list, runLink{Name: fmt.Sprintf("Run %d", m.Number), To: r.ID + ".html",
			Says: page.Shown(fmt.Sprintf("%s, %s, %s", unit.FormatRate(m.CompletedPerS), m.Outcome, m.Bottleneck))})
	}
	return list, nil
}

type runLink struct{ Name, To, Says string }

// recordPage adds the page of one record; above are the pages between it and the index.
func (s *Site) recordPage(u *use, d page.Document, runs []runLink, above []trail) error {
	sections, err := page.Sections(d)
	if err != nil {
		return err
	}
	main, err := execute("record", struct {
		*use
		Sections template.HTML
		Runs     []runLink
	}{u, sections, runs})
	if err != nil {
		return err
	}
	l := layout{Title: d.Title, Heading: d.Subtitle, Lead: d.Lead, Up: "../", Main: main, Footer: d.Footer,
		Trail: slices.Concat([]trail{{"Journal", "../" + IndexPage}}, above, []trail{{u.ID, ""}}), Card: shareCard{Kind: "article"}}
	html, err := l.whole()
	if err != nil {
		return err
	}
	if old, there := s.Files[u.Page()]; there && string(old) != string(html) {
		return fmt.Errorf("two records have the ID %s", u.ID)
	}
	s.Files[u.Page()] = html
	return nil
}

// row is a record in an entry page's list.
type row struct {
	*Record
	Kind, When, Says string
}

func rowOf(r *Record) row {
	out := row{Record: r, Says: "not measured yet"}
	const minute = "2 January 2006, 15:04 UTC"
	switch {
	case r.Pending():
		return out
	case r.Plan != nil:
		out.Kind = map[string]string{"find": "search", "prove": "proof", "compare": "comparison", "factorial": "factorial experiment"}[r.Plan.Experiment.Kind]
		out.Kind = fmt.Sprintf("%s of %d runs", cmp.Or(out.Kind, "sweep"), len(r.Plan.Runs))
		out.When, out.Says = r.Plan.Created.UTC().Format(minute), prose.Text(r.Plan.Says())
	default:
		v := &r.Run.Verdict
		out.Kind, out.When = "run", r.Run.Started.UTC().Format(minute)
		out.Says = fmt.Sprintf("%s, %s, bottleneck: %s", unit.FormatRate(r.Run.Rate.CompletedPerS), v.Outcome, v.Bottleneck)
		if v.Outcome == record.Invalid {
			out.Says = "invalid: " + prose.Sentence(v.Because)
		}
	}
	out.Says = page.Shown(out.Says)
	return out
}
