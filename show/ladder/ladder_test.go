package ladder

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"ceiling/internal/stat"
	"ceiling/show/page"
)

func sample() *Ladder {
	fsyncs, trips := 0.5, 1.0
	return &Ladder{Schema: Schema, Server: "fasthttp", Rounds: 5, DurationS: 0.5, Rows: []Row{
		{Regime: "memory-16B", PerS: stat.Estimate{Value: 1000}, Bottleneck: "server CPU"},
		{Regime: "postgres-insert", About: "INSERT, durable", PerS: stat.Estimate{Value: 100}, Next: "server CPU, at about 1× this rate",
			Cost: Cost{ServerCPUNs: 5000, Bytes: 143, Fsyncs: &fsyncs, RoundTrips: &trips}},
		{Regime: "postgres-row", NotMeasured: "not installed"},
	}}
}

// What is written is read again, and nothing else is taken for a ladder.
func TestRead(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&b)
	if err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                                   "not a ladder",
		`{"schema":"ceiling.run/3"}`:         `"ceiling.run/3"`,
		`{"schema":"ceiling.ladder/1"}`:      "no rows",
		strings.Repeat(" ", mostBytes) + "1": "4 MB",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// A table has what was measured alone, with the cost that explains it.
func TestTables(t *testing.T) {
	for _, table := range [][][]string{texts(sample().Table().Rows), texts(sample().Short().Rows)} {
		if len(table) != 2 || table[0][1] != "1,000" || table[1][1] != "100" {
			t.Errorf("%q", table)
		}
	}
	if got := texts(sample().Short().Rows)[1]; got[5] != "5.00 µs CPU, 143 B, 0.5 fsyncs, 1 round trips" || got[7] != "server CPU" {
		t.Errorf("%q", got)
	}
}

// On the index regimes of the same kind of work stand together, in the order in which the kinds first come.
func TestShortGroupsKinds(t *testing.T) {
	l := &Ladder{Rows: []Row{{Regime: "memory-a"}, {Regime: "sqlite-a"}, {Regime: "memory-b"}, {Regime: "compute"}, {Regime: "sqlite-b"}}}
	var got []string
	for _, row := range texts(l.Short().Rows) {
		got = append(got, row[0])
	}
	if want := []string{"memory-a: ", "memory-b: ", "sqlite-a: ", "sqlite-b: ", "compute: "}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	if l.Rows[1].Regime != "sqlite-a" {
		t.Error("the ladder itself was sorted")
	}
}

func texts(rows [][]page.Cell) (list [][]string) {
	for _, row := range rows {
		var cells []string
		for _, c := range row {
			cells = append(cells, c.Text)
		}
		list = append(list, cells)
	}
	return list
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"schema":"ceiling.ladder/1","rows":[{"regime":"a","cost":{"fsyncs":1}}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		if err := l.Write(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
		l.Table()
		l.Short()
		l.Page()
	})
}

// The page begins with how far the ends of the ladder are apart.
func TestPageBeginsWithAnAnswer(t *testing.T) {
	l := sample()
	l.Rows = l.Rows[1:]
	if _, ok := l.answer(); ok {
		t.Error("one regime of requests has an answer")
	}
	l.Rows = append(l.Rows, Row{Regime: "memory", PerS: stat.Estimate{Value: 100_000}, Bottleneck: "server CPU"})
	s, ok := l.answer()
	if !ok || l.Page().Sections[0].ID != "answer" {
		t.Fatal("there is no answer")
	}
	card, is := s.Blocks[0].(page.Verdict)
	if !is || card.Figure != "1.00k×" || card.Bottleneck != "server CPU" || card.Next == "" {
		t.Errorf("the card is %+v", s.Blocks[0])
	}
}
