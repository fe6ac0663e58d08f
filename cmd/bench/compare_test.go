package main

import (
	"strings"
	"testing"

	"ceiling/record"
)

func TestAnswersAreCounted(t *testing.T) {
	answer := func(rps, cpu string) *record.Comparison {
		return &record.Comparison{Changes: []record.Change{{Metric: "rps", Decision: rps}, {Metric: "server_cpu", Decision: cpu}}}
	}
	check := func(k pairKind, c *record.Comparison, found, alarms int) {
		t.Helper()
		row := Compared{Decisions: map[string]int{}}
		row.count(pairTrialOf(&k, c))
		if row.Pairs != 1 || row.Found != found || row.Alarms != alarms || len(row.Decisions) != 2 {
			t.Errorf("%+v", row)
		}
	}
	same, planted := sameKinds()[0], plantedKinds()[0]
	check(same, answer(record.NoChange, record.CannotTell), 0, 0)
	check(same, answer(record.Better, record.Worse), 0, 1)
	check(planted, answer(record.Worse, record.Worse), 1, 0)
	check(planted, answer(record.Worse, record.Better), 0, 0)
	check(planted, answer(record.Worse, record.NoChange), 0, 0)
}

func TestAnswersThatAreNoneAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":   "JSON",
		"{}": "no comparison",
		`{"ended":"failed","because":{"code":"said","with":{"text":"it died"}},"comparison":{}}`:              "it died",
		`{"ended":"complete","comparison":{"incomparable":[{"code":"said","with":{"text":"B fails: 503"}}]}}`: "503",
		`{"ended":"complete","comparison":{"changes":[{"metric":"rps"}],"a":"x"}}`:                            "",
	} {
		p, err := planIn([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v %v, want %q", text, p, err, want)
		}
	}
}
