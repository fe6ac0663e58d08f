package journal

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	texttemplate "text/template"

	"ceiling/internal/text"
	"ceiling/internal/unit"
	"ceiling/record"
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

// IndexPage is the start page, FeedPage the journal's Atom feed (RFC 4287).
const (
	IndexPage = "index.html"
	FeedPage  = "feed.xml"
)

// Build renders all pages. If the entries have mistakes, it returns all of them together (type
// Mistakes) and renders nothing.
func Build(j *Journal) (*Site, error) {
	s := &Site{Files: map[string][]byte{}}
	var entries []*written // in the journal's order
	for _, e := range j.Entries {
		entries = append(entries, parseEntry(e))
	}
	premise := parseEntry(j.premise)
	used, wrong := j.used()
	for _, w := range append(slices.Clone(entries), premise) {
		w.render(entries)
		wrong, s.Warnings = append(wrong, w.wrong...), append(s.Warnings, w.warnings...)
		maps.Copy(s.Files, w.files)
	}
	if err := wrong.sorted(); err != nil {
		return nil, err
	}
	byPlace(s.Warnings)
	s.Warnings = slices.Compact(s.Warnings)
	if err := s.pages(j, entries, premise.HTML, used); err != nil {
		return nil, fmt.Errorf("build journal: %w", err)
	}
	return s, nil
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

// entryPage renders the page of the i-th entry.
func (j *Journal) entryPage(entries []*written, i int) ([]byte, error) {
	w := entries[i]
	return layout{Title: w.Title + " · journal · ceiling", Heading: w.Title, Trail: []trail{{"Journal", IndexPage}, {w.Number, ""}},
		Kind: "article", Says: w.Summary(), Site: j.URL, Page: w.Page(), Footer: "Figures that are links are taken from records."}.
		whole("entry", struct {
			*written
			Previous, Newer []*written
		}{w, entries[max(i-1, 0):i], entries[i+1 : min(i+2, len(entries))]})
}

// index renders the index page, oldest entry first.
func (j *Journal) index(entries []*written, premise template.HTML) ([]byte, error) {
	lead := "No entries yet."
	if n := len(j.Entries); n > 0 {
		lead = unit.Plural(n, "entry", "entries") + ", the oldest first."
	}
	title := j.Title
	if title == "Journal" {
		title = "Journal · ceiling"
	}
	all := j.labels()
	return layout{Title: title, Heading: j.Title, Lead: lead, Script: indexScript, Filter: byTarget(all),
		Kind: "website", Says: lead, Site: j.URL, Page: IndexPage,
		Footer: "Every figure in the entries is taken from a record by reference; its link leads to the record."}.
		whole("index", struct {
			Premise template.HTML
			Labels  [3][]label
			Cards   []*written
		}{premise, all, entries})
}

// feed writes the entries, newest first. If the journal's URL is unknown, links are relative to
// the feed's own address.
func (j *Journal) feed(entries []*written) ([]byte, error) {
	t, err := texttemplate.New(FeedPage).Funcs(texttemplate.FuncMap{"xml": escaped, "id": j.feedID}).ParseFS(pageFiles, FeedPage)
	if err != nil {
		return nil, err
	}
	changed := "1970-01-01"
	for _, w := range entries {
		changed = max(changed, w.Changed())
	}
	newest := slices.Clone(entries)
	slices.Reverse(newest)
	var out bytes.Buffer
	err = t.Execute(&out, struct {
		*Journal
		Changed string
		Cards   []*written
	}{j, changed, newest})
	return out.Bytes(), err
}

// feedID returns a permanent ID for the feed or an entry: a UUID (version 5, RFC 9562) of the
// journal's title and the entry's folder, which do not change when pages move to another server.
func (j *Journal) feedID(entry string) string {
	sum := sha1.Sum([]byte("ceiling journal\x00" + j.Title + "\x00" + entry))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// The templates ask an entry for what a page shows of it.

// Page is the path of the entry's page, Called its number and title, Changed its last date.
func (e *Entry) Page() string    { return e.Name + ".html" }
func (e *Entry) Called() string  { return e.Number + " " + e.Title }
func (e *Entry) Changed() string { return max(e.Updated, e.Date) }

// Summary returns an entry's summary: the finding, or else the question.
func (w *written) Summary() string {
	says := cmp.Or(w.Finding.Text, w.Question)
	if w.Status == Retracted {
		says = "Retracted: " + w.RetractedBecause
	}
	return page.Text(text.Line(says))
}

// label is a search term of entries: a status, a regime or a tag.
type label struct {
	// Kind is "status", "regime" or "tag"; Name is the displayed text.
	Kind, Name string
	// Entries is the number of entries that have it.
	Entries int
}

// Anchor is the anchor of a label, and the class of its entries: "tag-pipelining".
func (l label) Anchor() string {
	return l.Kind + "-" + strings.ReplaceAll(strings.ToLower(l.Name), " ", "-")
}

// State returns a label as the status that it is.
func (l label) State() Status { return Status(l.Name) }

// Labels returns an entry's labels: its regime, then its tags.
func (e *Entry) Labels() []label {
	var list []label
	if e.Regime != "" {
		list = append(list, label{Kind: "regime", Name: e.Regime})
	}
	for _, t := range e.Tags {
		list = append(list, label{Kind: "tag", Name: t.Text})
	}
	return list
}

// labels returns all statuses, and the regimes and the tags in use by anchor, each with its entries.
func (j *Journal) labels() (all [3][]label) {
	count := func(l label, entries int) {
		list := &all[slices.Index([]string{"status", "regime", "tag"}, l.Kind)]
		i := slices.IndexFunc(*list, func(o label) bool { return o.Anchor() == l.Anchor() })
		if i < 0 {
			*list, i = append(*list, l), len(*list)
		}
		(*list)[i].Entries += entries
	}
	for _, s := range Statuses() {
		count(label{Kind: "status", Name: string(s)}, 0)
	}
	for _, e := range j.Entries {
		count(label{Kind: "status", Name: string(e.Status)}, 1)
		for _, l := range e.Labels() {
			count(l, 1)
		}
	}
	for _, list := range all[1:] {
		slices.SortFunc(list, func(a, b label) int { return strings.Compare(a.Anchor(), b.Anchor()) })
	}
	return all
}

// byTarget returns CSS that hides entries without the anchor's label, without script. IDs consist of
// small letters, digits, dashes and dots.
func byTarget(all [3][]label) template.CSS {
	var b strings.Builder
	for _, l := range slices.Concat(all[:]...) {
		id := strings.ReplaceAll(l.Anchor(), ".", `\.`)
		fmt.Fprintf(&b, "#%s:target~.entries>li:not(.%s){display:none}\n#%s:target~.find a[href=\"#%s\"]{color:var(--paper);background:var(--ink)}\n",
			id, id, id, l.Anchor())
	}
	return template.CSS(b.String())
}

// use is a record and the entries that refer to it, and what its page shows: its sections, and of a plan its runs.
type use struct {
	*Record
	Entries  []*Entry
	Sections template.HTML
	Runs     []runLink
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

// record adds the page of a run, or of a plan and its runs.
func (s *Site) record(u *use) error {
	r := u.Record
	d, err := documentOf([]*Record{r})
	if err != nil {
		return err
	}
	if u.Sections, err = page.Sections(d); err != nil {
		return err
	}
	above := []trail{{"Journal", "../" + IndexPage}}
	if r.of != nil {
		above = append(above, trail{"Plan " + r.of.ID, r.of.ID + ".html"})
	}
	if r.Plan != nil {
		if u.Runs, err = s.planned(u); err != nil {
			return err
		}
	}
	if r.CSV() != "" {
		if s.Files[r.CSV()], err = pointsCSV(r); err != nil {
			return err
		}
	}
	html, err := layout{Title: d.Title, Heading: d.Subtitle, Lead: d.Lead, Up: "../", Footer: d.Footer, Trail: append(above, trail{r.ID, ""}),
		Kind: "article"}.whole("record", u)
	if err != nil {
		return err
	}
	if old, there := s.Files[r.Page()]; there && string(old) != string(html) {
		return fmt.Errorf("two records have the ID %s", r.ID)
	}
	s.Files[r.Page()] = html
	return nil
}

// runLink leads from the page of a plan to that of one of its runs.
type runLink struct{ Name, To, Says string }

// planned adds a page for each run of a plan that the journal has.
func (s *Site) planned(of *use) ([]runLink, error) {
	var list []runLink
	for i := range of.Plan.Runs {
		m := &of.Plan.Runs[i]
		if _, there := of.Plan.Record(m.Run); !there {
			continue
		}
		opened, err := of.member(m.Run)
		if err != nil {
			return nil, err
		}
		r := *opened
		for _, l := range of.LeftOut {
			if l.What == series {
				r.LeftOut = append(r.LeftOut, record.Omission{What: series, Bytes: l.Bytes / int64(max(len(of.Plan.Records()), 1)), Why: l.Why})
			}
		}
		if err := s.record(&use{Record: &r, Entries: of.Entries}); err != nil {
			return nil, err
		}
		list = append(list, runLink{Name: fmt.Sprintf("Run %d", m.Number), To: r.ID + ".html",
			Says: page.Shown(fmt.Sprintf("%s, %s, %s", unit.FormatRate(m.CompletedPerS), m.Outcome, m.Bottleneck))})
	}
	return list, nil
}

// described is a record in an entry page's list.
type described struct{ Kind, When, Says string }

// Row describes a record in one line.
func (r *Record) Row() described {
	const minute = "2 January 2006, 15:04 UTC"
	switch {
	case r.Pending():
		return described{Says: "not measured yet"}
	case r.Plan != nil:
		return described{fmt.Sprintf("%s of %d runs", cmp.Or(r.Plan.Experiment.Noun(), "sweep"), len(r.Plan.Runs)), r.Plan.Created.UTC().Format(minute),
			page.Shown(prose.Text(r.Plan.Says()))}
	}
	v := &r.Run.Verdict
	says := fmt.Sprintf("%s, %s, bottleneck: %s", unit.FormatRate(r.Run.Rate.CompletedPerS), v.Outcome, v.Bottleneck)
	if v.Outcome == record.Invalid {
		says = "invalid: " + prose.Sentence(v.Because)
	}
	return described{"run", r.Run.Started.UTC().Format(minute), page.Shown(says)}
}
