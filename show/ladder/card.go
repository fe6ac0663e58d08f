package ladder

import (
	"fmt"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/page"
)

// answer summarises the ladder: the ratio of its fastest to its slowest regime, the most frequent
// bottleneck, and the command that examines the slowest; false if no two regimes can be compared.
func (l *Ladder) answer() (page.Section, bool) {
	var most, least *Row
	counts, name, measured := map[string]int{}, "", 0
	for i := range l.Rows {
		row := &l.Rows[i]
		if row.NotMeasured != "" || !(row.PerS.Value > 0) {
			continue
		}
		measured++
		if b := row.Bottleneck; b != "" {
			if counts[b]++; counts[b] > counts[name] {
				name = b
			}
		}
		if most == nil || row.PerS.Value > most.PerS.Value {
			most = row
		}
		if least == nil || row.PerS.Value < least.PerS.Value {
			least = row
		}
	}
	if most == least {
		return page.Section{}, false
	}
	card := page.Verdict{Outcome: "measured", Mood: record.Valid, Gloss: unit.Plural(measured, "regime", "regimes") + " of requests", Lead: true,
		Figure: unit.FormatSI(most.PerS.Value/least.PerS.Value) + "×", Unit: "the rate, from " + least.Regime + " to " + most.Regime,
		Bottleneck: name, Next: "ceiling regimes --only " + least.Regime + " -o regimes",
		Because: fmt.Sprintf("%s answers %s requests/s, %s %s. The bottleneck of %d of %d is: %s.", most.Regime,
			unit.FormatCount(int64(most.PerS.Value+.5)), least.Regime, unit.FormatCount(int64(least.PerS.Value+.5)), counts[name], measured, name)}
	return page.Section{ID: "answer", Title: "Answer", Blocks: []page.Block{card}}, true
}
