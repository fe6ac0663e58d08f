package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/internal/needs"
	"ceiling/record"
)

// entry writes the text of an entry; its front matter has everything that is
// needed and what is given besides.
func writeEntry(t *testing.T, dir, name, front, body string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	for _, need := range []string{"title: T", "date: 2026-11-21", "status: done", "question: Q", "hypothesis: H", "finding: F"} {
		key, _, _ := strings.Cut(need, ":")
		if !strings.Contains("\n"+front, "\n"+key+":") {
			front += need + "\n"
		}
	}
	check(t, os.WriteFile(filepath.Join(dir, name, entryFile), []byte("---\n"+front+"---\n"+body), 0o644))
}

// mistakesOf are what is wrong with a journal, a line each, without its folder.
func mistakesOf(t *testing.T, dir string) []string {
	t.Helper()
	j, err := Read(dir, noStore(t))
	if err == nil {
		_, err = Build(j)
	}
	if err == nil {
		return nil
	}
	var m Mistakes
	if !errors.As(err, &m) {
		return []string{err.Error()}
	}
	var lines []string
	for _, one := range m {
		if one.Error() == "" || strings.Contains(one.Error(), "\n") {
			t.Errorf("a mistake of several lines: %q", one.Error())
		}
		lines = append(lines, strings.TrimPrefix(one.Error(), dir+string(filepath.Separator)))
	}
	return lines
}

// A front matter that is wrong is told with its line, and how to mend it.
func TestFrontMatter(t *testing.T) {
	for _, c := range []struct{ name, front, want string }{
		{"unknown status", "title: T\nstatus: finished\n",
			`entry.md:3: status: unknown status "finished"; use one of planned, in progress, done, retracted`},
		{"unknown key", "stauts: done\n", `entry.md:2: unknown key "stauts"; near: status`},
		{"a key twice", "title: A\ntitle: B\n", "entry.md:3: "},
		{"no day", "date: 21 November\n", `entry.md:2: date: invalid date "21 November"; write it as in 2026-11-21`},
		{"no such day", "date: 2026-02-30\n", "entry.md:2: date: "},
		{"not a text", "question: [a, b]\n", "entry.md:2: question: it takes a text"},
		{"runs is a text", "runs: x7f2\n", "entry.md:2: runs: it takes a list, as in [one, another]"},
		{"no such bottleneck", "regime: server cpu\n", `entry.md:2: regime: unknown bottleneck "server cpu"; near: server CPU`},
		{"a tag of two words", "tags:\n  - good\n  - Not Good\n", `entry.md:4: tags: invalid tag "Not Good"; use lower-case letters, digits and dashes`},
		{"a tag twice", "tags:\n  - good\n  - fast\n  - good\n", "entry.md:5: tags: good appears twice"},
		{"changed before it was written", "date: 2026-11-21\nupdated: 2026-11-20\n", "entry.md:3: updated: 2026-11-20 is before the entry's date, 2026-11-21"},
		{"done, and no finding", "status: done\nfinding:\n", "entry.md:2: a done entry says what came out: finding"},
		{"a name with a blank", "runs:\n  \"a b\": x7f2\n", `entry.md:3: runs: invalid name "a b"`},
		{"retracted, and no reason", "status: retracted\n", "entry.md:2: a retracted entry says why: retracted_because"},
		{"a reason, and not retracted", "retracted_because: it was late\n",
			"entry.md:2: retracted_because goes with status: retracted, not with done"},
		{"no YAML", "title: \"open\n", "entry.md:"},
		{"not a table", "- a\n- b\n", "entry.md:"},
		{"done without a record", "", "a done entry names the runs that it is about: runs"},
		{"done with a record to come", "runs:\n  later:\n", "entry.md:3: runs: later names no record; an entry that is done has all of them"},
		{"on nothing", "builds_on: [0009]\n", `entry.md:2: builds_on: unknown entry "0009"; near: 0001-a`},
		{"corrects nothing", "corrects:\n  - 0009\n", `entry.md:3: corrects: unknown entry "0009"; near: 0001-a`},
		{"on itself", "builds_on: [0001-a]\n", "entry.md:2: builds_on: an entry cannot name itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "j")
			writeEntry(t, dir, "0001-a", c.front, "")
			got := mistakesOf(t, dir)
			if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, c.want) }) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Folders that cannot be told apart, or are none.
func TestFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	if got := mistakesOf(t, dir); len(got) != 1 || !strings.Contains(got[0], "begin one with: ceiling journal new") {
		t.Errorf("no folder: %q", got)
	}
	for _, name := range []string{"0001-a", "0001-b", "0002-a", "3-c", "0004-C"} {
		writeEntry(t, dir, name, "status: planned\n", "")
	}
	check(t, os.MkdirAll(filepath.Join(dir, "0005-empty"), 0o755))
	check(t, os.MkdirAll(filepath.Join(dir, "drafts"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "bench.ndjson"), []byte("{}\n"), 0o644))
	check(t, os.MkdirAll(filepath.Join(dir, "0006-open"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "0006-open", entryFile), []byte("---\ntitle: x\n"), 0o644))
	check(t, os.MkdirAll(filepath.Join(dir, "0007-bare"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "0007-bare", entryFile), []byte("# hello\n"), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, aboutFile), []byte("---\ntitle: T\ncolour: green\n---\n"), 0o644))
	got := strings.Join(mistakesOf(t, dir), "\n")
	for _, want := range []string{
		`index.md:3: unknown key "colour"; near: title, author, url`,
		"0001-b: the number 0001 is taken by 0001-a", `0002-a: the name "a" is taken by 0001-a`,
		"3-c: the folder of an entry has a number of four digits",
		"0004-C: the folder of an entry has", "0005-empty/entry.md: the entry has no text",
		"0006-open/entry.md:1: the front matter is not closed",
		"0007-bare/entry.md:1: an entry begins with a front matter",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing from:\n%s", want, got)
		}
	}
	if strings.Contains(got, "drafts") || strings.Contains(got, "bench") {
		t.Errorf("other files are the journal's matter:\n%s", got)
	}
}

// Entries that build on each other are told so, and do not hang.
func TestCircle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	writeEntry(t, dir, "0001-a", "status: planned\nbuilds_on: [b]\n", "")
	writeEntry(t, dir, "0002-b", "status: planned\nbuilds_on: [c]\n", "")
	writeEntry(t, dir, "0003-c", "status: planned\nbuilds_on: [a]\n", "")
	if got := mistakesOf(t, dir); len(got) != 3 ||
		!strings.Contains(got[0], "0001-a/entry.md:3: builds_on: 0003-c builds on this entry in turn") {
		t.Errorf("got %q", got)
	}
}

// oneRun is a journal with a run and a sweep, and an entry with a text.
func oneRun(t *testing.T, status, body string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "j")
	front := "runs:\n  first: " + runID + "\n  second: " + otherID + "\n  sweep: " + sweepID + "\nstatus: " + status + "\n"
	writeEntry(t, dir, "0001-a", front, body)
	records := filepath.Join(dir, "0001-a", recordsDir)
	check(t, os.MkdirAll(records, 0o755))
	for id, times := range map[string]float64{runID: 1, otherID: 2} {
		r, h := sampleRun(id, times)
		if id == otherID {
			r.Load.Connections, r.Spec.Connections = 128, 128
			r.Subject, r.Generator.Headroom = nil, 0
			r.NotMeasured = append(r.NotMeasured, record.NotMeasured{What: "process", Why: "the server is elsewhere"})
		}
		keepRun(t, fileOf(records, id), r, h)
	}
	keepPlan(t, fileOf(records, sweepID), samplePlans()[sweepID], false)
	return dir
}

// A reference that the record does not answer fails the build, with its line
// and what is like it.
func TestReferences(t *testing.T) {
	needs.Time(t)
	for _, c := range []struct{ text, want string }{
		{`{{(run "first").Rte}}`, `entry.md:16: {{(run "first").Rte}}: unknown .Rte; near: Rate`},
		{`{{(run "frist").Rate}}`, `"frist" is not among this entry's runs; near: first`},
		{`{{(run "first").Lag.P98}}`, "unknown .P98; near: P90, P99"},
		{`{{run "first"}}`, `has figures; name one, as in {{(run "first").Because}}; there is Because, Bottleneck`},
		{`{{(run "first").RunDelay}}`, `{{(run "first").RunDelay}}: was not measured`},
		{`{{(run "first").Rate.X}}`, "a figure has no parts, and no .X"},
		{`{{(run "first").TargetRate}}`, "was not measured"},
		{`{{(run "first").Station "srever"}}`, `unknown station "srever"; near: server`},
		{`{{run}}`, "wrong number of args for run: want 1 got 0; it is written as {{(run"},
		{`{{(run "first".Rate}}`, "; it is written as {{(run"},
		{`{{(run "first").Rate }`, "is not closed by }} on its line"},
		{`{{(run "first).Rate}}`, "is not closed by }} on its line"},
		{`{{}}`, "{{}} is empty"},
		{`{{"12,345 req/s"}}`, "is not a figure of a record"},
		{`{{(rum "first").Rate}}`, "unknown {{rum}}; near: run"},
		{`{{(plan "first").Count}}`, `first is a run: write (run "first")`},
		{`{{(run "sweep").Rate}}`, `sweep is a plan: write (plan "sweep")`},
		{`{{(curve "sweep" "fast").Kne}}`, "unknown .Kne; near: Knee"},
		{`{{(curve "first").Says}}`, `first is a run: write (run "first")`},
		{`{{(curve "sweep" "fats").Says}}`, `sweep has no curve "fats"; near: fast`},
		{`{{(curve "sweep" "/read").Says}}`, "2 curves are called so; say which by its server, mix or what was fixed: "},
		{`{{(curve "sweep" "fast").Rate}}`, "the curve has 3 points; say which by its load, as in (C.At 64).Rate: 16, 64, 256"},
		{`{{((curve "sweep" "fast").At 65).Rate}}`, "the curve has no point at 65; there is 16, 64, 256"},
		{`{{((curve "sweep" "fast").At 64).GeneratorCPU}}`, "was not measured"},
		{`{{(plan "sweep").Says}}`, "a sweep of 2 curves says something of each"},
		{`{{(plan "sweep").Capacity}}`, "a plan of kind sweep has no capacity"},
		{`{{(run "second").ServerCPU}}`, "was not measured, because the server is elsewhere"},
		{`{{(run "second").Headroom}}`, "was not measured"},
		{`{{(run "sweep/zzzz").Rate}}`, `sweep has 0 runs called "zzzz" in the journal, of 0`},
		{`{{(run "first/zzzz").Rate}}`, "first is a single run"},
		{`{{compare (run "first").Rate (run "second").Rate}}`, "cannot be compared: connections: 64 in one, 128 in the other"},
		{`{{times (run "first").Rate (run "first").P99}}`, "are not of one kind"},
		{`{{times (run "first").Outcome (run "first").Outcome}}`, "only numbers can be compared"},
		{`{{(metric "first" "rps").Change}}`, `first is a run: write (run "first")`},
		{`{{(metric "sweep" "rps").Change}}`, "a plan of kind sweep has no metrics"},
		{`text {{table "first"}}`, "must be in its own paragraph"},
		{`{{figure "first" "curve"}}`, `unknown figure "curve"; use stations, percentiles`},
		{`{{table "first" "curves"}}`, `unknown table "curves"; use `},
		{`{{table "first" "sweep"}}`, "a table of several is one of single runs"},
		{"# One", "a heading of one # is the page's title"},
		{"[x](nowhere.txt)", "link to \"nowhere.txt\": no such file in the entry's folder"},
		{"[x](javascript:alert)", "links go to http, https and mailto"},
		{"[x](data:text/html,x)", "links go to http, https and mailto"},
		{"<javascript:alert(1)>", "links go to http, https and mailto"},
		{"[x](../../secret.txt)", "outside of the entry's folder there are only other entries"},
		{"[x](/etc/passwd.txt)", "is relative to the entry's folder"},
		{"[x](page.html)", `files that end in ".html" are not tested`},
		{"![x](https://example.org/x.png)", "a page loads nothing from elsewhere"},
		{"[x](#nothing)", "no such heading"},
		{"[x](../0001-a/entry.md#nothing)", `it has no heading "nothing"`},
		{"[x]()", "it leads nowhere"},
	} {
		t.Run(c.text, func(t *testing.T) {
			got := mistakesOf(t, oneRun(t, "done", "\n## Head\n\n"+c.text+"\n"))
			if len(got) != 1 || !strings.Contains(got[0], c.want) || !strings.Contains(got[0], "0001-a/entry.md:1") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Of what is still to come only what cannot be is refused.
func TestPending(t *testing.T) {
	for text, want := range map[string]string{
		`{{(run "later").Rate}} {{(plan "later").Capacity}} {{((curve "later" "a" "b").At 3).Rate}} {{(run "later/k3pq").P99}}`: "",
		`{{compare (run "later").Rate (run "other").Rate}} {{(resource "later" "x").Left}} {{(curve "later").Run.Read}}`:        "",
		`{{(run "later").P98}}`:                 "unknown .P98; near: P9",
		`{{((curve "later" "a").At "x").Rate}}`: "it is written as {{(curve",
		`{{(run "later").Rte}}`:                 "unknown .Rte; near: Rate",
	} {
		dir := filepath.Join(t.TempDir(), "j")
		writeEntry(t, dir, "0001-a", "status: planned\nruns:\n  later:\n  other:\n", text+"\n")
		got := strings.Join(mistakesOf(t, dir), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// Records that are missing, newer, damaged or not finished.
func TestRecords(t *testing.T) {
	where := func(dir, id string) string { return fileOf(filepath.Join(dir, "0001-a", recordsDir), id) }
	replace := func(t *testing.T, path, old, new string) {
		text, err := os.ReadFile(path)
		check(t, err)
		if !bytes.Contains(text, []byte(old)) {
			t.Fatalf("%s lacks %q", path, old)
		}
		check(t, os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(new), 1), 0o644))
	}
	for _, c := range []struct {
		name, want string
		spoil      func(t *testing.T, dir string)
	}{
		{"missing", "entry.md:3: runs: no record \"20261121-093012-x7f2\", neither in",
			func(t *testing.T, dir string) { check(t, os.Remove(where(dir, runID))) }},
		{"newer", "entry.md:3: runs: 20261121-093012-x7f2: open run: read ", func(t *testing.T, dir string) {
			replace(t, where(dir, runID), "ceiling.run/3", "ceiling.run/4")
		}},
		{"newer plan", "it needs a ceiling that reads ceiling.plan/9", func(t *testing.T, dir string) {
			replace(t, where(dir, sweepID), "ceiling.plan/4", "ceiling.plan/9")
		}},
		{"cut in the middle", "entry.md:3: runs: 20261121-093012-x7f2: open run: read ", func(t *testing.T, dir string) {
			check(t, os.Truncate(where(dir, runID), 70))
		}},
		{"another's ID", "its ID is \"../../x\"", func(t *testing.T, dir string) {
			replace(t, where(dir, runID), runID, "../../x")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := oneRun(t, "done", "")
			c.spoil(t, dir)
			if got := mistakesOf(t, dir); len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A run that was killed, and a plan that was broken off, have what they have,
// and say so; what they lack fails the build.
func TestHalfWritten(t *testing.T) {
	dir := oneRun(t, "done", `{{(run "first").Rate}} {{(plan "sweep").Count}}`+"\n")
	records := filepath.Join(dir, "0001-a", recordsDir)
	rewrite(t, fileOf(records, runID), func(kind string, line []byte) []byte {
		if kind == "result" {
			return nil
		}
		return line
	})
	check(t, os.Remove(fileOf(records, sweepID)))
	p := samplePlan(sweepID, spec.KindSweep)
	p.Ended, p.Because = "", record.Statement{}
	keepPlan(t, fileOf(records, sweepID), p, true)
	s := build(t, dir)
	text := string(s.Files["0001-a.html"])
	if !strings.Contains(text, ">12,000 req/s<") || !strings.Contains(text, ">2<") {
		t.Error("what is there is not in the page")
	}
	if n := len(s.Warnings); n != 2 || !strings.Contains(s.Warnings[0].Says, "was cut off before it had a result") ||
		!strings.Contains(s.Warnings[1].Says, "was interrupted after 2 runs") {
		t.Errorf("warnings: %v", s.Warnings)
	}
	if !strings.Contains(string(s.Files[recordPage(runID)]), "the run was killed; do not use these numbers") ||
		!strings.Contains(string(s.Files[recordPage(sweepID)]), "Interrupted after") {
		t.Error("the pages do not say that the records are not whole")
	}
	writeEntry(t, dir, "0001-a", "runs: ["+runID+", "+sweepID+"]\n", `{{(run "x7f2").P99}} {{(plan "swee").Capacity}}`+"\n")
	got := strings.Join(mistakesOf(t, dir), "\n")
	for _, want := range []string{`{{(run "x7f2").P99}}: was not measured, because no result was written`,
		"was interrupted after 2 runs and has no such answer; resume with: ceiling run --resume"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing from %q", want, got)
		}
	}
}

// Records of the store can be used, and what is not in the journal is said.
func TestStore(t *testing.T) {
	dir, store := filepath.Join(t.TempDir(), "j"), record.Store{Dir: t.TempDir()}
	r, h := sampleRun(runID, 1)
	keepRun(t, fileOf(store.Dir, runID), r, h)
	writeEntry(t, dir, "0001-a", "runs: [x7f2]\n", `{{(run "x7f2").Rate}}`+"\n")
	j, err := Read(dir, store)
	check(t, err)
	s, err := Build(j)
	check(t, err)
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].Error(),
		"entry.md:2: 20261121-093012-x7f2 is only in this machine's store; put it in with: ceiling journal add 0001-a") {
		t.Errorf("warnings: %v", s.Warnings)
	}
	if !strings.Contains(string(s.Files["0001-a.html"]), ">12,345 req/s<") {
		t.Error("the figure is not in the page")
	}
}

// Numbers that a person has typed are pointed out in what is done.
func TestTypedNumbers(t *testing.T) {
	body := "\nIt made 12,345 requests/s at 5 ms, 12 µs, 3.5 s, 40%, 1.2 GB/s, 3.1 times and 164k/s.\n\n" +
		"There were 64 connections, 2 cores and version 1.26 of it in 2026; `5 ms` is code, {{typed \"7 ms\"}} is typed.\n\nAlso **9 ms**.\n"
	s := build(t, oneRun(t, "done", body))
	var found []string
	for _, w := range s.Warnings {
		_, text, _ := strings.Cut(w.Says, "{{typed ")
		found = append(found, strings.Trim(text, "\"}"))
	}
	want := []string{"12,345 requests/s", "5 ms", "12 µs", "3.5 s", "40%", "1.2 GB/s", "3.1 times", "164k/s", "9 ms"}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	if s := build(t, oneRun(t, "in progress", body)); len(s.Warnings) > 0 {
		t.Errorf("an entry that is not done: %v", s.Warnings)
	}
}

// Runs of one plan were made to differ, and may be held against each other.
func TestRunsOfOnePlan(t *testing.T) {
	dir := sampleJournal(t)
	runs := 0
	rewrite(t, fileOf(filepath.Join(dir, "0002-plans", recordsDir), sweepID), func(kind string, line []byte) []byte {
		if kind == "run" {
			runs++
		}
		if runs == 2 && (kind == "run" || kind == "result") {
			return bytes.ReplaceAll(line, []byte(`"connections":64`), []byte(`"connections":128`))
		}
		return line
	})
	entry := filepath.Join(dir, "0002-plans", entryFile)
	check(t, os.WriteFile(entry, []byte(mustRead(t, entry)+"\n"+`Both {{compare (run "sweep/run1").Rate (run "sweep/run2").Rate}}.`+"\n"), 0o644))
	s := build(t, dir)
	if len(s.Warnings) > 0 || !strings.Contains(string(s.Files["0002-plans.html"]), ">&#43;0.0%</a>.") {
		t.Errorf("warnings %v, or the figure is missing", s.Warnings)
	}
}
