package verdict

import (
	"math/rand/v2"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestUnusualResponsesAreSaid: what was measured in place of the page.
func TestUnusualResponsesAreSaid(t *testing.T) {
	all := closedRun().Requests.Completed
	to := func(r *record.Run) { r.Redirects = []record.Redirect{{Status: 302, To: "/login"}} }
	for _, c := range []struct {
		name string
		run  *record.Run
		says string // "": nothing
	}{
		{"page", answeredWith(map[string]uint64{"200": all}, nil), ""},
		{"redirects", answeredWith(map[string]uint64{"302": all}, to),
			"all responses were redirects (302 to /login): this measures the redirect, not the page; load /login"},
		{"of an old record", answeredWith(map[string]uint64{"301": all}, nil), "all responses were redirects (301): this measures the redirect"},
		{"some", answeredWith(map[string]uint64{"200": all - all/4, "302": all / 4}, to), "25% of responses were redirects (302 to /login)"},
		{"few", answeredWith(map[string]uint64{"200": all - 1, "302": 1}, to), ""},
		{"not expected", answeredWith(map[string]uint64{"302": all}, func(r *record.Run) {
			to(r)
			r.Spec.Expect = mustExpect(t, "200")
		}), ""},
		{"no content", answeredWith(map[string]uint64{"204": all}, nil), "all responses were 204 (no content): this measures an answer without a body"},
		{"no content of a POST", answeredWith(map[string]uint64{"204": all}, func(r *record.Run) { r.Spec.Targets[0].Method = "POST" }), ""},
		{"not modified", answeredWith(map[string]uint64{"304": all}, nil), "all responses were 304 (not modified: the requests are conditional)"},
	} {
		var d caveats
		d.ofTheResponses(newFacts(c.run, nil))
		if text := prose.Sentence(d); !strings.HasPrefix(text, c.says) || (text == "") != (c.says == "") {
			t.Errorf("%s: %q, want %q", c.name, text, c.says)
		}
	}
}

func mustExpect(t *testing.T, text string) spec.Expect {
	t.Helper()
	e, err := spec.ParseExpect(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// sized are 50 rows of 100 ms, with so many responses of the size that of gives.
func sized(responses uint64, of func(row int) float64) (rows []record.LoadRow) {
	for i := range 50 {
		rows = append(rows, record.LoadRow{TNs: int64(i+1) * 1e8, WidthNs: 1e8, Completed: responses, Read: uint64(of(i) * float64(responses))})
	}
	return rows
}

// TestResponsesThatChange: a size that is another from some moment on, or for a stretch, and none
// that varies.
func TestResponsesThatChange(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pages := func(n int, low, high float64) func(int) float64 { // the mean of n pages
		return func(int) (sum float64) {
			for range n {
				sum += (low + (high-low)*random.Float64()*random.Float64()) / float64(n)
			}
			return sum
		}
	}
	until := func(at, end int, one, other float64) func(int) float64 {
		return func(row int) float64 {
			switch {
			case row == at:
				return (one + other) / 2
			case row > at && row < end:
				return other
			}
			return one
		}
	}
	for _, c := range []struct {
		name string
		rows []record.LoadRow
		says string
	}{
		{"error page", sized(100, until(31, 50, 4150, 190)), "the responses changed at 3.2 s: from 4.15 kB to 190 B each"},
		{"error page at last", sized(100, until(46, 50, 4150, 190)), "the responses changed at 4.7 s: from"},
		{"longer page", sized(100, until(10, 50, 190, 1150)), "the responses changed at 1 s: from 190 B to 1.15 kB each"},
		{"for a while", sized(100, until(10, 20, 4150, 190)), "the responses changed at 1.1 s until 2 s: from"},
		{"slow server", sized(5, until(30, 50, 4150, 190)), "the responses changed at 3.2 s: from"},
		{"same", sized(100, until(50, 50, 4150, 0)), ""},
		{"dynamic pages", sized(100, pages(100, 500, 9000)), ""},
		{"dynamic pages, few", sized(2, pages(2, 500, 90000)), ""},
		{"compressed now and then", sized(100, func(row int) float64 { return []float64{4000, 900}[row/5%2] }), ""},
		{"a growing list", sized(100, func(row int) float64 { return 500 + 100*float64(row) }), ""},
		{"one odd row", sized(100, until(20, 21, 4150, 190)), ""},
	} {
		f := newFacts(answeredWith(map[string]uint64{"200": 5000}, nil), &record.Series{Load: c.rows})
		var d caveats
		d.ofTheResponses(f)
		if text := prose.Sentence(d); !strings.HasPrefix(text, c.says) || (text == "") != (c.says == "") {
			t.Errorf("%s: %q, want %q", c.name, text, c.says)
		}
	}
}
