package journal

import (
	"cmp"
	"crypto/sha1"
	"encoding/xml"
	"fmt"
	"slices"

	"ceiling/internal/text"
	"ceiling/show/page"
)

// FeedPage is the journal's Atom feed (RFC 4287).
const FeedPage = "feed.xml"

type atomFeed struct {
	XMLName   xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	Title     string      `xml:"title"`
	ID        string      `xml:"id"`
	Updated   string      `xml:"updated"`
	Author    string      `xml:"author>name"`
	Links     []atomLink  `xml:"link"`
	Generator string      `xml:"generator"`
	Entries   []atomEntry `xml:"entry"`
}

type atomEntry struct {
	Title      string         `xml:"title"`
	ID         string         `xml:"id"`
	Published  string         `xml:"published"`
	Updated    string         `xml:"updated"`
	Links      []atomLink     `xml:"link"`
	Categories []atomCategory `xml:"category"`
	Summary    string         `xml:"summary"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Type string `xml:"type,attr"`
	To   string `xml:"href,attr"`
}

type atomCategory struct {
	Term string `xml:"term,attr"`
}

// midnight formats a day as an Atom time. An entry has no hour.
func midnight(day string) string { return day + "T00:00:00Z" }

// feed writes the entries, newest first. If the journal's URL is unknown, links are relative to
// the feed's own address.
func (j *Journal) feed(entries []*written) ([]byte, error) {
	f := atomFeed{Title: page.Text(j.Title), ID: j.feedID(""), Updated: midnight("1970-01-01"), Author: page.Text(j.Author), Generator: "ceiling journal",
		Links: []atomLink{{"self", "application/atom+xml", j.URL + FeedPage}, {"alternate", "text/html", j.URL + IndexPage}}}
	for _, e := range slices.Backward(entries) {
		changed := midnight(max(e.Updated, e.Date))
		f.Updated = max(f.Updated, changed)
		one := atomEntry{Title: page.Text(e.Title), ID: j.feedID(e.Name), Published: midnight(e.Date), Updated: changed,
			Links: []atomLink{{"alternate", "text/html", j.URL + e.Page()}}, Summary: e.summary(),
			Categories: []atomCategory{{string(e.Status)}}}
		for _, l := range e.Labels() {
			one.Categories = append(one.Categories, atomCategory{l.Name})
		}
		f.Entries = append(f.Entries, one)
	}
	out, err := xml.MarshalIndent(f, "", " ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", FeedPage, err)
	}
	return []byte(xml.Header + string(out) + "\n"), nil
}

// summary returns an entry's summary: the finding, or else the question.
func (w *written) summary() string {
	says := cmp.Or(w.Finding.Text, w.Question)
	if w.Status == Retracted {
		says = "Retracted: " + w.RetractedBecause
	}
	return page.Text(text.Line(says))
}

// feedID returns a permanent ID for the feed or an entry: a UUID (version 5, RFC 9562) of the
// journal's title and the entry's folder, which do not change when pages move to another server.
func (j *Journal) feedID(entry string) string {
	sum := sha1.Sum([]byte("ceiling journal\x00" + j.Title + "\x00" + entry))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
