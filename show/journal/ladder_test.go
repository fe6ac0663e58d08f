package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/internal/stat"
	"ceiling/record"
	"ceiling/show/ladder"
)

const ladderFront = "---\ntitle: Regimes\ndate: 2026-11-23\nstatus: done\nquestion: q\nhypothesis: h\nladder: LADDER\n" +
	"finding: 'It makes {{(regime \"memory\").Rate}}.'\n---\n\n{{ladder}}\n\nBODY\n"

// ladderJournal is one entry with a ladder.
func ladderJournal(t *testing.T, file, body string) string {
	t.Helper()
	dir := t.TempDir()
	entry := filepath.Join(dir, "0001-regimes")
	if err := os.Mkdir(entry, 0o755); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("LADDER", file, "BODY", body).Replace(ladderFront)
	if err := os.WriteFile(filepath.Join(entry, entryFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(entry, "ladder.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := &ladder.Ladder{Schema: ladder.Schema, Server: "fasthttp", CPUs: "apart", Rounds: 5, Environment: &record.Environment{CPUModel: "A CPU"},
		Rows: []ladder.Row{
			{Regime: "memory", About: "answer", PerS: stat.Estimate{Value: 54321}, Bottleneck: "server CPU", Next: "generator, at about 2× this rate"},
			{Regime: "postgres", NotMeasured: "not installed"},
		}}
	if err := l.WriteJSON(f); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A ladder is the front of the index, a table of its entry and a page of its own.
func TestLadder(t *testing.T) {
	j, err := Read(ladderJournal(t, "ladder.json", `Its limit is {{(regime "memory").Bottleneck}}.`), record.Store{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Build(j)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		IndexPage:                         {`id="ladder"`, "54,321", "generator", `href="0001-regimes.html"`},
		"0001-regimes.html":               {"54,321 req/s", "A CPU", "Its limit is"},
		recordPage("0001-regimes-ladder"): {"not measured: not installed", "54,321"},
	} {
		for _, w := range want {
			if !strings.Contains(string(s.Files[name]), w) {
				t.Errorf("%s has no %q", name, w)
			}
		}
	}
	if index := string(s.Files[IndexPage]); strings.Index(index, `id="ladder"`) > strings.Index(index, `id="entries"`) {
		t.Error("the ladder is behind the entries")
	}
}

func TestLadderMistakes(t *testing.T) {
	for _, test := range []struct{ file, body, want string }{
		{"none.json", "", "ceiling regimes -o DIR"},
		{"../ladder.json", "", "not in the entry's folder"},
		{"entry.md", "", "not a ladder"},
		{"ladder.json", `{{(regime "memry").Rate}}`, `no regime "memry"`},
		{"ladder.json", `{{(regime "postgres").Rate}}`, "not measured: not installed"},
		{"ladder.json", `{{(regime "memory").P99}}`, "not measured"},
	} {
		j, err := Read(ladderJournal(t, test.file, test.body), record.Store{Dir: t.TempDir()})
		if err == nil {
			_, err = Build(j)
		}
		var wrong Mistakes
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v, want %q", test.file, test.body, err, test.want)
		}
	}
}
