package journal

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"ceiling/internal/unit"
)

// card is an entry in the index.
type card struct {
	*Entry
	To, Day string
	Finding sentence
	Hero    *hero
	Notices []notice
	Labels  []label
	// Classes are the filters that leave it in sight.
	Classes string
}

// label is what entries are found by: a status, a regime or a tag.
type label struct {
	// Kind is "status", "regime" or "tag"; Name what a reader sees.
	Kind, Name string
	// ID is its anchor, and the class of its entries: "tag-pipelining".
	ID string
	// To leads to the index with only its entries in sight.
	To string
	// Says explains it; Class is that of its colour, of a status.
	Says, Class string
	Entries     int
}

func labelOf(kind, name string) label {
	id := kind + "-" + strings.ReplaceAll(strings.ToLower(name), " ", "-")
	return label{Kind: kind, Name: name, ID: id, To: IndexPage + "#" + id}
}

// labels are those of an entry: its regime, then its tags.
func (e *Entry) labels() []label {
	var list []label
	if e.Regime != "" {
		list = append(list, labelOf("regime", e.Regime))
	}
	for _, t := range e.Tags {
		list = append(list, labelOf("tag", t.Text))
	}
	return list
}

// statusLabel is a status with what it promises.
func statusLabel(s Status) label {
	l := labelOf("status", string(s))
	l.Says, l.Class = s.means(), s.Class()
	return l
}

// indexData is what the page of all entries shows.
type indexData struct {
	Premise template.HTML
	Ladder  template.HTML // of regimes
	Legend  []label
	// Filters are the regimes and the tags in use.
	Regimes, Tags []label
	Cards         []card
}

// index is the page of all entries, the oldest first.
func (j *Journal) index(texts map[*Entry]*written, premise *written) ([]byte, error) {
	var data indexData
	if premise != nil {
		data.Premise = premise.html
	}
	var err error
	if data.Ladder, err = j.indexLadder(); err != nil {
		return nil, err
	}
	entries := map[string]int{}
	for _, e := range j.Entries {
		c := card{Entry: e, To: entryPage(e), Day: day(e.Date), Finding: texts[e].finding, Hero: texts[e].hero,
			Notices: append(e.notices(), j.correctionNotices(e)...), Labels: e.labels()}
		for _, l := range append(c.Labels, statusLabel(e.Status)) {
			c.Classes += " " + l.ID
			entries[l.ID]++
		}
		data.Cards = append(data.Cards, c)
	}
	data.Regimes, data.Tags = j.inUse("regime"), j.inUse("tag")
	for _, s := range Statuses() {
		data.Legend = append(data.Legend, statusLabel(s))
	}
	var filters []label
	for _, list := range [][]label{data.Legend, data.Regimes, data.Tags} {
		for i := range list {
			list[i].Entries = entries[list[i].ID]
			filters = append(filters, list[i])
		}
	}
	main, err := execute("index", data)
	if err != nil {
		return nil, err
	}
	script, err := files.ReadFile("index.js")
	if err != nil {
		return nil, err
	}
	lead := "No entries yet."
	if n := len(j.Entries); n > 0 {
		lead = unit.Plural(n, "entry", "entries") + ", the oldest first."
	}
	title := j.Title
	if title == "Journal" {
		title = "Journal · ceiling"
	}
	return layout{Title: title, Heading: j.Title, Lead: lead, Main: main, Script: template.JS(script), Filter: filterStyle(filters),
		Card: shareCard{Kind: "website", Says: lead, URL: j.address(IndexPage), Image: j.URL + previewPage(indexPreview),
			Alt: j.previewOfIndex(texts).Alt()},
		Footer: "Every figure in the entries is taken from a record by reference; its link leads to the record."}.whole()
}

// inUse are the labels of a kind that entries have, by their names.
func (j *Journal) inUse(kind string) []label {
	var list []label
	for _, e := range j.Entries {
		for _, l := range e.labels() {
			if l.Kind == kind && !slices.ContainsFunc(list, func(o label) bool { return o.ID == l.ID }) {
				list = append(list, l)
			}
		}
	}
	slices.SortFunc(list, func(a, b label) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// address is where a page will be; "" where the journal does not say.
func (j *Journal) address(page string) string {
	if j.URL == "" {
		return ""
	}
	return j.URL + page
}

// filterStyle lets an anchor hide what does not have its label, without script. IDs are
// small letters, digits, dashes and dots.
func filterStyle(labels []label) template.CSS {
	var b strings.Builder
	for _, l := range labels {
		id := strings.ReplaceAll(l.ID, ".", `\.`)
		fmt.Fprintf(&b, "#%s:target~.entries>li:not(.%s){display:none}\n#%s:target~.find a[href=\"#%s\"]{color:var(--paper);background:var(--ink)}\n",
			id, id, id, l.ID)
	}
	return template.CSS(b.String())
}
