package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
)

// ruleErrors asks whether the rate counts answers that are not what was asked:
// a server that refuses a tenth of its work has another bottleneck than one that
// does it.
func ruleErrors(f *facts) finding {
	out := finding{bottleneck: record.Failures}
	if !f.errorShare.known {
		return out
	}
	share := f.errorShare.value
	if share > 0 {
		out.pro = f.errorEvidence()
	}
	if o := &f.outage; o.count > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.load.connected", o.share, "share", "%s: %s of the window", o.says(f), unit.Percent(o.share)))
	}
	switch {
	case share >= errorsMatter:
		out.answer, out.because, out.next = yes, f.errorsSentence(), f.errorsNext()
	case f.outage.share >= outageMatters:
		out.answer, out.because, out.next = yes, f.outage.says(f),
			"check why the server ended or closed its port (its log, a restart, the OOM killer in dmesg), then rerun"
	}
	return out
}

// failedByErrors tells whether a run fails for its errors alone, whatever its
// latencies are: the same rule with an SLO and without.
func (f *facts) failedByErrors() bool {
	return f.errorShare.known && f.run.Spec.SLO.FailsBy(f.errorShare.value) || f.outage.share >= outageMatters
}

// errorsSentence is what the errors were, and what the run therefore is not.
func (f *facts) errorsSentence() string {
	share := f.errorShare.value
	what := "of requests failed"
	if f.run.Requests.Failed == 0 && f.connects == 0 && f.idle == 0 {
		what = "of responses were errors"
	}
	is := "the rate includes failed requests"
	if share >= errorsMostly {
		is = "this is not a measurement of " + f.whatWasAsked()
	}
	return fmt.Sprintf("%s %s%s: %s", unit.Percent(share), what, kindsOf(f.errorKinds()), is)
}

// unexpected tells a status code that is not the response asked for.
func (f *facts) unexpected(status string) bool {
	code, err := strconv.Atoi(status)
	return err == nil && len(status) == 3 && code >= 100 && !f.run.Spec.Expect.Has(code)
}

// errorKind is one cause with how often it came.
type errorKind struct {
	name  string
	count uint64
}

// errorKinds are the causes of the window, the most frequent first.
func (f *facts) errorKinds() []errorKind {
	var list []errorKind
	for _, e := range f.run.Errors {
		if e.BeforeWindow || e.Count == 0 {
			continue
		}
		name := e.Cause
		switch e.Phase {
		case record.PhaseConnect:
			if !f.run.Spec.NewConnections {
				continue
			}
			name = "connect: " + name
		case record.PhaseIdle:
			if errno(e.Cause) {
				continue
			}
			name += ", without a request"
		}
		list = append(list, errorKind{name, e.Count})
	}
	if !slices.ContainsFunc(f.run.Errors, func(e record.Error) bool { return e.Phase == record.PhaseStatus }) {
		for status, n := range f.run.Statuses { // other tools count them there alone
			if f.unexpected(status) && n > 0 {
				list = append(list, errorKind{status, n})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b errorKind) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.name, b.name))
	})
	return list
}

// kindsSaid bounds what a sentence names.
const kindsSaid = 3

func kindsOf(list []errorKind) string {
	var parts []string
	for _, k := range list[:min(len(list), kindsSaid)] {
		parts = append(parts, fmt.Sprintf("%s × %s", k.name, count(k.count)))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// whatWasAsked is the path of the target, or that there are several.
func (f *facts) whatWasAsked() string {
	targets := f.run.Spec.Targets
	if len(targets) > 1 {
		return fmt.Sprintf("the %d targets", len(targets))
	}
	url := f.run.Target
	if len(targets) == 1 {
		url = targets[0].URL
	}
	_, path, err := spec.SplitURL(url)
	if err != nil {
		return "the target"
	}
	path, _, _ = strings.Cut(path, "?") // a query may hold a token
	return path
}

func (f *facts) errorEvidence() []record.Evidence {
	share := f.errorShare.value
	list := []record.Evidence{record.NewEvidence("errors", share, "share", "%s of all requests failed or got an unexpected status%s",
		unit.Percent(share), causesOf(f.run))}
	if f.bad > 0 {
		expected := "from 400 on"
		if e := f.run.Spec.Expect; len(e) > 0 {
			expected = "not " + e.String()
		}
		list = append(list, record.NewEvidence("statuses", f.bad, "responses", "%s responses had an unexpected status (%s)", count(uint64(f.bad)),
			expected))
	}
	kinds := f.errorKinds()
	responses := slices.Clone(f.run.ErrorResponses)
	at := func(e record.ErrorResponse) int {
		return slices.IndexFunc(kinds, func(k errorKind) bool { return k.name == strconv.Itoa(e.Status) })
	}
	responses = slices.DeleteFunc(responses, func(e record.ErrorResponse) bool { return at(e) < 0 || e.Line == "" })
	slices.SortFunc(responses, func(a, b record.ErrorResponse) int { return cmp.Compare(at(a), at(b)) })
	for _, e := range responses[:min(len(responses), kindsSaid)] {
		list = append(list, record.NewEvidence("error_responses", float64(e.Status), "status", "the first %d response says: %q", e.Status, e.Line))
	}
	return list
}

// errorsNext is what to do about the commonest error.
func (f *facts) errorsNext() string {
	run := f.run
	if f.timeouts > 0 && f.timeouts*2 >= f.errorShare.value*(float64(run.Requests.Completed)+float64(run.Requests.Failed)+f.connects) {
		return f.timeoutNext()
	}
	kinds := f.errorKinds()
	if len(kinds) == 0 {
		return "check the server log for these errors, then rerun"
	}
	asked := "--expect " + kinds[0].name + " if that is the response you want"
	switch name := kinds[0].name; {
	case name == "404" || name == "410":
		return fmt.Sprintf("check the path: the server has no %s; or %s", f.whatWasAsked(), asked)
	case name == "401" || name == "403" || name == "407":
		return "send the credentials that the server asks for (-H 'Authorization: ...'); or " + asked
	case name == "405":
		return "check the method (-m); or " + asked
	case name == "429":
		return "the server limits the rate of one client: raise that limit, or lower the rate (-R)"
	case name == "503":
		return "the server refuses work (503): check its log and its limits (connections, queue, rate), or lower the load (-c, -R)"
	case len(name) == 3 && name >= "400" && name < "500":
		return "check the request: the server refuses it as it is; or " + asked
	case len(name) == 3 && name >= "100" && name < "400":
		return fmt.Sprintf("check why the server answers with %s; or add it to --expect (%s)", name, run.Spec.Expect)
	}
	return "check the server log for these errors, then rerun"
}

// timeoutNext is what to do about requests that took longer than allowed.
func (f *facts) timeoutNext() string {
	if f.neverAccepted() > 0 {
		return f.unacceptedNext() // they would time out however long they are waited for
	}
	return "the server takes longer than --timeout: lower the load (-c, -R) or raise --timeout"
}
