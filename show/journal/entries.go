package journal

import (
	"fmt"
	"strings"
	"time"

	"ceiling/show/page"
)

// The templates ask a written entry for what a page shows of it.

// notice is a warning that an entry's reader must not miss.
type notice struct {
	Text string
	// About is the entry that it is about, Because why that is retracted; nil and "" if the notice is
	// complete without.
	About   *Entry
	Because string
}

// Notices returns the notices about an entry and about what it builds on.
func (e *Entry) Notices() []notice {
	var list []notice
	if e.Status == Retracted {
		list = append(list, notice{Text: page.Text("This entry is retracted: " + e.RetractedBecause)})
	}
	for _, chain := range e.unsound {
		var by []string
		for _, b := range chain[:len(chain)-1] {
			by = append(by, b.Number)
		}
		n := notice{"It builds on a retracted entry", chain[len(by)], page.Text(chain[len(by)].RetractedBecause)}
		if len(by) > 0 {
			n.Text = fmt.Sprintf("By way of %s it builds on a retracted entry", strings.Join(by, ", "))
		}
		list = append(list, n)
	}
	for _, other := range e.correctedBy {
		list = append(list, notice{Text: "Corrected by", About: other})
	}
	for _, other := range e.corrects {
		list = append(list, notice{Text: "This entry corrects", About: other})
	}
	return list
}

// day formats a date in words.
func day(date string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date // Read validated the date
	}
	return t.Format("2 January 2006")
}

// Page is the path of the entry's page, Called its number and title.
func (e *Entry) Page() string   { return e.Name + ".html" }
func (e *Entry) Called() string { return e.Number + " " + e.Title }

// entryPage renders the page of the i-th entry.
func (j *Journal) entryPage(entries []*written, i int) ([]byte, error) {
	w := entries[i]
	data := struct {
		*written
		Rows            []row
		Previous, Newer *written
	}{written: w}
	for _, r := range w.Records {
		data.Rows = append(data.Rows, rowOf(r))
	}
	if i > 0 {
		data.Previous = entries[i-1]
	}
	if i+1 < len(entries) {
		data.Newer = entries[i+1]
	}
	main, err := execute("entry", data)
	if err != nil {
		return nil, err
	}
	return layout{Title: w.Title + " · journal · ceiling", Heading: w.Title, Main: main,
		Trail:  []trail{{"Journal", IndexPage}, {w.Number, ""}},
		Card:   shareCard{Kind: "article", Says: w.summary(), URL: j.address(w.Page())},
		Footer: "Figures that are links are taken from records."}.whole()
}
