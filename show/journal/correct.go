package journal

import (
	"fmt"
	"slices"
)

// A correction is named at both ends, so that a reader of either finds the other.

// corrections checks that every link is there, and that its other end answers it.
func (j *Journal) corrections() Mistakes {
	var wrong Mistakes
	check := func(e *Entry, key, back string, links []Named, answers func(*Entry) []Named) {
		for _, l := range links {
			other, err := j.Find(l.Text)
			switch {
			case err != nil:
				wrong.add(e.File, l.Line, "%s: %v", key, err)
			case other == e:
				wrong.add(e.File, l.Line, "%s: an entry cannot correct itself", key)
			case !slices.ContainsFunc(answers(other), func(n Named) bool { return e.is(n.Text) }):
				wrong.add(e.File, l.Line, "%s: %s does not say so in turn; write into %s: %s: [%s]", key, other.Name, other.File, back, e.Name)
			}
		}
	}
	for _, e := range j.Entries {
		check(e, "corrects", "corrected_by", e.Corrects, func(o *Entry) []Named { return o.CorrectedBy })
		check(e, "corrected_by", "corrects", e.CorrectedBy, func(o *Entry) []Named { return o.Corrects })
	}
	return wrong
}

// correctionNotices say at the head of an entry what it corrects, or is corrected by.
func (j *Journal) correctionNotices(e *Entry) []notice {
	var list []notice
	for _, of := range []struct {
		says  string
		links []Named
	}{{"Corrected by", e.CorrectedBy}, {"This entry corrects", e.Corrects}} {
		for _, l := range of.links {
			if other, err := j.Find(l.Text); err == nil {
				list = append(list, notice{Text: of.says, To: entryPage(other), Name: fmt.Sprintf("%s %s", other.Number, other.Title)})
			}
		}
	}
	return list
}
