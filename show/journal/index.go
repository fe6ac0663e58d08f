package journal

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"ceiling/internal/unit"
)

// label is a search term of entries: a status, a regime or a tag.
type label struct {
	// Kind is "status", "regime" or "tag"; Name is the displayed text.
	Kind, Name string
	// Entries is the number of entries that have it.
	Entries int
}

// ID is the anchor of a label, and the class of its entries: "tag-pipelining".
func (l label) ID() string {
	return l.Kind + "-" + strings.ReplaceAll(strings.ToLower(l.Name), " ", "-")
}

// Is returns a label as the status that it is.
func (l label) Is() Status { return Status(l.Name) }

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

// labels returns the statuses, and by ID the regimes and the tags in use, each with its entries.
func (j *Journal) labels() (statuses, regimes, tags []label) {
	for _, s := range Statuses() {
		statuses = append(statuses, label{Kind: "status", Name: string(s)})
	}
	count := func(list *[]label, l label) {
		i := slices.IndexFunc(*list, func(o label) bool { return o.ID() == l.ID() })
		if i < 0 {
			*list, i = append(*list, l), len(*list)
		}
		(*list)[i].Entries++
	}
	for _, e := range j.Entries {
		count(&statuses, label{Kind: "status", Name: string(e.Status)})
		for _, l := range e.Labels() {
			count(map[string]*[]label{"regime": &regimes, "tag": &tags}[l.Kind], l)
		}
	}
	for _, list := range [][]label{regimes, tags} {
		slices.SortFunc(list, func(a, b label) int { return strings.Compare(a.ID(), b.ID()) })
	}
	return statuses, regimes, tags
}

// index renders the index page, oldest entry first.
func (j *Journal) index(entries []*written, premise template.HTML) ([]byte, error) {
	statuses, regimes, tags := j.labels()
	main, err := execute("index", struct {
		Premise               template.HTML
		Legend, Regimes, Tags []label
		Cards                 []*written
	}{premise, statuses, regimes, tags, entries})
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
	return layout{Title: title, Heading: j.Title, Lead: lead, Main: main, Script: template.JS(script),
		Filter: filterStyle(slices.Concat(statuses, regimes, tags)),
		Card:   shareCard{Kind: "website", Says: lead, URL: j.address(IndexPage)},
		Footer: "Every figure in the entries is taken from a record by reference; its link leads to the record."}.whole()
}

// address returns the URL of a page; "" if the journal's URL is unknown.
func (j *Journal) address(page string) string {
	if j.URL == "" {
		return ""
	}
	return j.URL + page
}

// filterStyle returns CSS that hides entries without the anchor's label, without script. IDs
// consist of small letters, digits, dashes and dots.
func filterStyle(labels []label) template.CSS {
	var b strings.Builder
	for _, l := range labels {
		id := strings.ReplaceAll(l.ID(), ".", `\.`)
		fmt.Fprintf(&b, "#%s:target~.entries>li:not(.%s){display:none}\n#%s:target~.find a[href=\"#%s\"]{color:var(--paper);background:var(--ink)}\n",
			id, id, id, l.ID())
	}
	return template.CSS(b.String())
}
