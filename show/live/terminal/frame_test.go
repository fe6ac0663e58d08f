package terminal

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"ceiling/internal/archive"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/show/live"
)

var update = flag.Bool("update", false, "write the golden files") // read-only

// boardAt is a board that was told of the recorded run of show/live/testdata until a
// time.
func boardAt(t testing.TB, untilNs int64) (*live.Board, *record.Run) {
	t.Helper()
	r, s, err := record.Open(record.File{Path: "../testdata/run.ndjson"})
	if err != nil {
		t.Fatal(err)
	}
	part := recordtest.Until(&s, untilNs)
	b := live.NewBoard()
	b.Began(record.Start{ID: r.ID, Created: r.Started, Spec: r.Spec})
	b.Rows(&part)
	b.Form()
	return b, r
}

// fleetRows are rows of two agents as they might have shared the recorded run;
// nothing has come of the second one for half a second less than four.
func fleetRows(t testing.TB, untilNs int64) *record.Series {
	t.Helper()
	_, s, err := record.Open(record.File{Path: "../testdata/run.ndjson"})
	if err != nil {
		t.Fatal(err)
	}
	part, out := recordtest.Until(&s, untilNs), &record.Series{}
	for i, name := range []string{"load1", "a-longer-name"} {
		for _, row := range part.Load {
			row.Host, row.Completed, row.TNs = name, row.Completed/2, row.TNs-int64(i)*3500e6
			out.Agents = append(out.Agents, row)
		}
	}
	return out
}

func trailOf(b *live.Board) History {
	p := painter{generation: -1}
	p.follow(b)
	return p.trail
}

func plan() live.Plan {
	return live.Plan{Kind: "sweep", Number: 3, All: 12, LeftRuns: 10, LeftS: 43, Doing: "http://127.0.0.1:8080/read, 64 connections, repeat 1"}
}

func TestFrames(t *testing.T) {
	for _, c := range []struct {
		name          string
		width, height int
		until         int64
		change        func(*live.Board, *record.Run)
	}{
		{"running-80x24", 80, 24, 2e9, nil},
		{"running-40x24", 40, 24, 2e9, nil},
		{"running-60x24", 60, 24, 2e9, nil},
		{"running-120x24", 120, 24, 2e9, nil},
		{"running-80x8", 80, 8, 2e9, nil},
		{"plan-80x24", 80, 24, 2e9, func(b *live.Board, _ *record.Run) { b.Step(plan()) }},
		{"warmup-80x24", 80, 24, -1, nil},
		{"ended-80x24", 80, 24, 9e9, func(b *live.Board, r *record.Run) { b.RunEnded(r) }},
		{"agents-80x30", 80, 30, 2e9, func(b *live.Board, r *record.Run) { b.Rows(fleetRows(t, 2e9)) }},
		{"quiet-40x24", 40, 24, 2e9, func(b *live.Board, _ *record.Run) { b.Quiet(12) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, r := boardAt(t, c.until)
			if c.change != nil {
				c.change(b, r)
			}
			s := b.Snapshot()
			golden(t, c.name, Frame(&s, trailOf(b), c.width, c.height), c.width, c.height)
		})
	}
	t.Run("waiting", func(t *testing.T) {
		s := live.NewBoard().Snapshot()
		golden(t, "waiting-80x24", Frame(&s, History{}, 80, 24), 80, 24)
	})
}

// The picture in the documentation is a frame.
func TestDocsShowAFrame(t *testing.T) {
	frame := archive.Read(t, frames, "plan-80x24.txt")
	docs, err := os.ReadFile("../../../docs/live.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(docs), "```\n"+string(frame)+"```\n") {
		t.Error("docs/live.md does not show plan-80x24.txt of " + frames)
	}
}

const frames = "testdata/frames.txtar"

func golden(t *testing.T, name string, lines []string, width, height int) {
	t.Helper()
	if len(lines) > height {
		t.Errorf("%d lines for %d rows", len(lines), height)
	}
	var b strings.Builder
	for _, line := range lines {
		if n := ansi.StringWidth(line); n >= width {
			t.Errorf("%d columns of %d: %q", n, width, line)
		}
		b.WriteString(strings.TrimRight(ansi.Strip(line), " ") + "\n")
	}
	name += ".txt"
	if *update {
		archive.Update(t, frames, name, []byte(b.String()))
	}
	if diff := cmp.Diff(string(archive.Read(t, frames, name)), b.String()); diff != "" {
		t.Errorf("%s of %s (go test ./show/live/terminal -update writes it anew):\n%s", name, frames, diff)
	}
}

// Any size that a terminal can have is painted within its bounds.
func TestAnySizeFits(t *testing.T) {
	b, _ := boardAt(t, 2e9)
	b.Step(plan())
	s := b.Snapshot()
	for i := range 20 { // a large host
		s.Ends.Hosts[0].Cores = append(s.Ends.Hosts[0].Cores, live.Core{CPU: i + 2, Shares: [6]float64{.5, .2, .1, .1, 0, .1}})
	}
	for i := range 20 {
		s.Agents = append(s.Agents, live.Agent{Name: fmt.Sprint("agent-with-a-name-", i), PerS: 1e7, Answered: true, P50Ns: 1e9, P99Ns: 1e10,
			Busy: .5, Connected: 1e6, BehindS: 9})
	}
	trail := trailOf(b)
	for width := 1; width < 200; width += 3 {
		for _, height := range []int{1, 2, 5, 24, 100} {
			lines := Frame(&s, trail, width, height)
			if len(lines) > height {
				t.Fatalf("%d × %d: %d lines", width, height, len(lines))
			}
			for _, line := range lines {
				if n := ansi.StringWidth(line); n >= max(width, 12) {
					t.Fatalf("%d × %d: %d columns: %q", width, height, n, line)
				}
			}
		}
	}
}

// A server chooses some of the texts; none of them may steer the terminal.
func TestHostileTexts(t *testing.T) {
	const evil = "\x1b]0;owned\a\x1b[2J\u202e\r\n\u009b31m"
	b, r := boardAt(t, 2e9)
	r.Verdict.Because, r.Verdict.Bottleneck = recordtest.Says(evil), evil
	r.StoppedEarly = evil
	r.Verdict.Stations[0].Name = evil
	b.RunEnded(r)
	b.Step(live.Plan{Kind: evil, Doing: evil})
	s := b.Snapshot()
	s.Agents = []live.Agent{{Name: evil}}
	s.Target, s.Ends.Server.Name, s.Ends.Hosts[0].Name, s.Links[0].Iface = evil, evil, evil, evil
	all := ansi.Strip(strings.Join(Frame(&s, trailOf(b), 80, 50), "\n"))
	for _, r := range all {
		if r != '\n' && (r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u202e') {
			t.Fatalf("%q is in the frame", r)
		}
	}
	raw := strings.Join(Frame(&s, trailOf(b), 80, 50), "\n")
	for _, bad := range []string{"\x1b]", "\x1b[2J", "\a", "\r"} {
		if strings.Contains(raw, bad) {
			t.Errorf("%q is in the frame", bad)
		}
	}
	if !strings.Contains(all, "owned") {
		t.Error("the text was not shown at all: this test proves nothing")
	}
}

func ExampleHistory() {
	s := live.Snapshot{}
	s.Spec.Duration = 4e9
	f := frame{s: &s, trail: History{AtS: []float64{1, 2, 3}, PerS: []float64{10, 40, 80}}}
	fmt.Printf("%q\n", f.spark(8))
	// Output: "▁▁▄▄██  "
}
