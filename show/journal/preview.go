package journal

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/show/page"
	"ceiling/show/preview"
)

// previewPage is the path of a page's link preview image.
func previewPage(of string) string { return "previews/" + of + ".png" }

const indexPreview = "index"

// previews draws the images of the index and of every entry.
func (s *Site) previews(j *Journal, texts map[*Entry]*written) error {
	cards := map[string]preview.Card{indexPreview: j.previewOfIndex(texts)}
	for _, e := range j.Entries {
		cards[e.Name] = e.preview(j.Title, texts[e])
	}
	for name, c := range cards {
		picture, err := c.PNG()
		if err != nil {
			return err
		}
		s.Files[previewPage(name)] = picture
	}
	return nil
}

// preview returns the card of an entry: its hero, or its question if it has none.
func (e *Entry) preview(site string, w *written) preview.Card {
	c := preview.Card{Site: page.Text(site), Title: page.Text(e.Title), Foot: page.Text(string(e.Status) + " · " + day(e.changed()))}
	if h := w.hero; h != nil {
		c.Figure, c.Of, c.Graph, c.Forest = h.Figure, h.Says, h.graph, h.forest
		return c
	}
	c.Says = page.Text(e.Question)
	return c
}

// previewOfIndex returns the index's card: the number of entries, and the newest chart.
func (j *Journal) previewOfIndex(texts map[*Entry]*written) preview.Card {
	c := preview.Card{Title: page.Text(j.Title), Figure: unit.Plural(len(j.Entries), "entry", "entries")}
	if c.Title != "Journal" {
		c.Site = "Journal"
	}
	of := map[Status]int{}
	for _, e := range j.Entries {
		of[e.Status]++
	}
	var counts []string
	for _, s := range []Status{Done, InProgress, Planned, Retracted} {
		if n := of[s]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	c.Of = strings.Join(counts, " · ")
	newest := slices.SortedStableFunc(slices.Values(j.Entries), func(a, b *Entry) int { return strings.Compare(b.changed(), a.changed()) })
	for _, e := range newest {
		if h := texts[e].hero; h != nil && (h.graph != nil || h.forest != nil) {
			c.Graph, c.Forest, c.Foot = h.graph, h.forest, page.Text(e.Number+" "+e.Title)
			break
		}
	}
	return c
}
