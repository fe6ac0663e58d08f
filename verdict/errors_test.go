package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// answeredWith is a closed run all of whose responses had the statuses given.
func answeredWith(statuses map[string]uint64, change func(*record.Run)) *record.Run {
	r := closedRun()
	r.Target = "http://h/nope?token=hidden"
	r.Spec.Targets = []spec.Target{{Method: "GET", URL: r.Target, Weight: 1}}
	r.Statuses, r.Errors = statuses, nil
	for status, n := range statuses {
		if status >= "400" {
			r.Errors = append(r.Errors, record.Error{Phase: "status", Cause: status, Count: n})
		}
	}
	if change != nil {
		change(r)
	}
	return r
}

// TestErrorsFailARun: a run whose responses were not those asked for is never
// green, with an SLO on times alone as without one, and says what came instead.
func TestErrorsFailARun(t *testing.T) {
	all := closedRun().Requests.Completed
	says := func(v record.Verdict) string {
		text := prose.Sentence(v.Because) + "\n" + prose.Sentence(v.Next)
		for _, e := range v.Evidence {
			text += "\n" + prose.Text(e.Says)
		}
		return text
	}
	for _, c := range []struct {
		name     string
		run      *record.Run
		outcome  record.Outcome
		has, not string
	}{
		{"missing path", answeredWith(map[string]uint64{"404": all}, func(r *record.Run) {
			r.ErrorResponses = []record.ErrorResponse{{Status: 404, Line: "page not found"}}
		}), record.Fail, "100% of responses were errors (404 × " + unit.FormatCount(int64(all)) + "): this is not a measurement of /nope", "hidden"},
		{"its first line", answeredWith(map[string]uint64{"404": all}, func(r *record.Run) {
			r.ErrorResponses = []record.ErrorResponse{{Status: 404, Line: "page not found"}}
		}), record.Fail, `the first 404 response says: "page not found"`, ""},
		{"what to do", answeredWith(map[string]uint64{"404": all}, nil), record.Fail, "check the path: the server does not have /nope; or --expect 404",
			""},
		{"failing server under an SLO", answeredWith(map[string]uint64{"500": all}, func(r *record.Run) { r.Spec.SLO = mustSLO(t, "p99<50s") }),
			record.Fail, "100% of responses were errors (500 ×", ""},
		{"errors allowed", answeredWith(map[string]uint64{"200": all - all/25, "503": all / 25},
			func(r *record.Run) { r.Spec.SLO = mustSLO(t, "errors<5%") }),
			record.Pass, "4% of responses were errors (503 ×", "not a measurement"},
		{"mostly errors, whatever is allowed", answeredWith(map[string]uint64{"200": all / 4, "503": all - all/4},
			func(r *record.Run) { r.Spec.SLO = mustSLO(t, "errors<100%") }),
			record.Fail, "75% of responses", ""},
		{"a few", answeredWith(map[string]uint64{"200": all - all/1000, "503": all / 1000}, nil), record.Valid, "", "were errors"},
		{"not found is what was asked", answeredWith(map[string]uint64{"404": all}, func(r *record.Run) {
			r.Spec.Expect, r.Errors = mustExpect(t, "404"), nil
		}), record.Valid, "", "were errors"},
		{"a redirect that was not asked for", answeredWith(map[string]uint64{"302": all}, func(r *record.Run) {
			r.Spec.Expect = mustExpect(t, "2xx")
			r.Errors = []record.Error{{Phase: "status", Cause: "302", Count: all}}
		}), record.Fail, "100% of responses were errors (302 ×", ""},
		{"https asked as http", answeredWith(map[string]uint64{"400": all}, func(r *record.Run) {
			r.ErrorResponses = []record.ErrorResponse{{Status: 400, Line: "Client sent an HTTP request to an HTTPS server."}} // Go's; nginx says it likewise
		}), record.Fail, "use https:// in the URL", "rejects it"},
		{"a server without HTTP/2", nobodyAnswered(spec.HTTP2, "the server answers in HTTP/1.1"), record.Invalid, "leave out --http 2", "by hand"},
		{"nobody answers", nobodyAnswered("", "connection closed before the response"), record.Invalid, "send one request by hand", "before the window"},
		{"timeouts", answeredWith(map[string]uint64{"200": all}, func(r *record.Run) {
			r.Requests.Failed = all / 20
			r.Requests.Sent += r.Requests.Failed
			r.Errors = []record.Error{{Phase: "response", Cause: "timeout", Count: r.Requests.Failed}}
		}), record.Fail, "of requests failed (timeout ×", "were errors"},
		{"a timeout below the wait that the load makes", answeredWith(map[string]uint64{"200": 100_000}, func(r *record.Run) {
			r.Load.Connections, r.Load.Established, r.Load.Pipelining = 3000, 3000, 10
			r.Spec.Connections, r.Spec.Pipelining = 3000, 10
			r.Requests = record.Requests{InFlightAtStart: 30_000, Sent: 180_000, Completed: 100_000, Failed: 50_000, InFlight: 30_000}
			r.Rate.CompletedPerS, r.Spec.Timeout = 10_000, 2*time.Second
			r.Errors = []record.Error{{Phase: "response", Cause: "timeout", Count: 2000}, {Phase: "response", Cause: "behind a timed-out request", Count: 48_000}}
		}), record.Fail, "shorter than the wait that this load makes: 30,000 in flight ÷ 10,000 req/s = 3.00 s", "server log"},
	} {
		v := Judge(c.run, nil)
		if text := says(v); v.Outcome != c.outcome || !strings.Contains(text, c.has) || c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s: %s, want %s with %q and without %q:\n%s", c.name, v.Outcome, c.outcome, c.has, c.not, text)
		}
	}
}

// nobodyAnswered is a run of which all requests failed, by the same cause before the window and in it.
func nobodyAnswered(http, cause string) *record.Run {
	r := closedRun()
	r.Spec.HTTP, r.Statuses = http, nil
	r.Requests.Failed, r.Requests.Completed = r.Requests.Completed, 0
	r.Errors = []record.Error{{Phase: record.PhaseResponse, Cause: cause, Count: r.Requests.Failed},
		{Phase: record.PhaseResponse, Cause: cause, Count: 7, BeforeWindow: true}}
	return r
}

// An endpoint for profiles that was named and does not answer is told; one that
// was only looked for is not.
func TestMissingProfilesAreTold(t *testing.T) {
	run := closedRun()
	run.NotMeasured = []record.NotMeasured{{What: "pprof", Why: "http://127.0.0.1:6060/nope/ answers 404 Not Found"}}
	const says = "no profiles of the server: http://127.0.0.1:6060/nope/ answers 404 Not Found; check --pprof"
	for asked, want := range map[string]bool{"http://127.0.0.1:6060/nope/": true, "off": false, "": false} {
		run.Spec.Pprof = asked
		if got := slices.Contains(prose.Texts(Judge(run, nil).Caveats), says); got != want {
			t.Errorf("--pprof %q: told %v, want %v", asked, got, want)
		}
	}
}

// TestAdviceFitsTheStatus: what to do is what a person would do about that status.
func TestAdviceFitsTheStatus(t *testing.T) {
	for status, want := range map[string]string{
		"400": "check the request", "401": "send the credentials", "403": "check the credentials", "404": "check the path: the server does not have /nope",
		"405": "check the method (-m): the server does not answer POST at /nope; or --expect 405", "407": "send the credentials", "410": "check the path",
		"413": "send a smaller body", "415": "-H 'Content-Type: application/json'", "422": "check the request", "426": "another version of HTTP (--http)",
		"429": "rate-limits", "431": "check the request", "500": "check the server log", "501": "check the method (-m): the server does not answer POST at /nope",
		"502": "check the server behind this one", "503": "refuses work", "504": "check the server behind this one", "505": "another version of HTTP",
	} {
		v := Judge(answeredWith(map[string]uint64{status: 1_000_000}, func(r *record.Run) { r.Spec.Targets[0].Method = "POST" }), nil)
		if next := texts(v.Next); !strings.Contains(next, want) || status != "500" && strings.HasPrefix(next, "check the server log") {
			t.Errorf("%s: %s, want %s", status, next, want)
		}
	}
}

// TestTimeoutBelowOneResponse: where requests time out, a longer run alone brings no response.
func TestTimeoutBelowOneResponse(t *testing.T) {
	for _, timesOut := range []bool{false, true} {
		r := closedRun()
		r.Statuses, r.Requests = nil, record.Requests{Sent: 2, InFlight: 2}
		want := "measure longer than one response takes (-d), with a --timeout above that"
		if timesOut {
			r.Errors = []record.Error{{Phase: record.PhaseResponse, Cause: "timeout", Count: 1, BeforeWindow: true}}
			want = "the server takes longer than --timeout (10.0 s): raise it"
		}
		if next := texts(Judge(r, nil).Next); !strings.HasPrefix(next, want) {
			t.Errorf("timeouts %v: %s", timesOut, next)
		}
	}
}

func texts(list []record.Statement) string { return strings.Join(prose.Texts(list), "; ") }
