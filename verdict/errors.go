package verdict

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// ruleErrors asks whether the rate counts unexpected responses: a server that refuses a tenth of
// its work has a different bottleneck from one that does it.
func ruleErrors(f *facts) finding {
	out := finding{bottleneck: record.Failures}
	if !f.base.errorShare.known {
		return out
	}
	share := f.base.errorShare.value
	if share > 0 {
		out.pro = f.base.errorEvidence()
	}
	if o := &f.time.outage; o.count > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.load.connected", o.share, "share",
			say("outage.share", with{"outage": o.says(f.base), "share": o.share})))
	}
	switch {
	case share >= errorsMatter:
		out.answer, out.because, out.next = matched, []record.Statement{f.base.errorsSentence()}, f.cpu.server.errorsNext()
		if w := askedWait(f.cpu.server); w != nil && mostlyTimeouts(f.base) {
			out.because = append(out.because, say("errors.asked-wait", w))
		}
	case f.time.outage.share >= outageMatters:
		out.answer, out.because, out.next = matched, []record.Statement{f.time.outage.says(f.base)}, just("outage.next", nil)
	}
	return out
}

// errorsSentence says what the errors were, and what the run therefore does not measure.
func (f *runFacts) errorsSentence() record.Statement {
	var not record.Statement
	if f.errorShare.value >= errorsMostly {
		not = f.whatWasAsked()
	}
	return say("errors", with{"share": f.errorShare.value, "kinds": kindsOf(f.errorKinds()), "not": not,
		"responses": f.run.Requests.Failed == 0 && f.connects == 0 && f.idle == 0, "connects": onlyConnects(f)})
}

// onlyConnects reports whether the errors are connections that could not be opened: the requests for
// them were never sent, so none failed.
func onlyConnects(f *runFacts) bool {
	return f.connects > 0 && f.bad+f.unlike == 0 && f.idle == 0 && float64(f.run.Requests.Failed) <= f.local.requests
}

// unexpected reports whether a status code is an error for this run.
func (f *runFacts) unexpected(status string) bool {
	code, err := strconv.Atoi(status)
	return err == nil && len(status) == 3 && code >= 100 && !f.run.Spec.Expect.Has(code)
}

// errorKind is one cause and its count: a status code, or the cause of an error met while
// connecting or on a connection without a request.
type errorKind struct {
	name                 string
	connect, idle, check bool
	count                uint64
}

// errorKinds returns the causes in the window, the most frequent first.
func (f *runFacts) errorKinds() []errorKind {
	var list []errorKind
	for _, e := range f.run.Errors {
		if e.BeforeWindow || e.Count == 0 || e.Phase == record.PhaseFault || originOf(f.run, e) == record.OfLocal {
			continue
		}
		kind := errorKind{name: e.Cause, check: e.Phase == record.PhaseCheck, count: e.Count}
		switch {
		case e.OfConnecting():
			if !f.run.Spec.NewConnections.Each() {
				continue
			}
			kind.connect = true
		case e.Phase == record.PhaseIdle:
			if record.Errno(e.Cause) {
				continue
			}
			kind.idle = true
		}
		list = append(list, kind)
	}
	if !slices.ContainsFunc(f.run.Errors, func(e record.Error) bool { return e.Phase == record.PhaseStatus }) {
		for status, n := range f.run.Statuses { // other tools count them only there
			if f.unexpected(status) && n > 0 {
				list = append(list, errorKind{name: status, count: n})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b errorKind) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.name, b.name))
	})
	return list
}

// kindsSaid bounds the causes a sentence names.
const kindsSaid = 3

func kindsOf(list []errorKind) []record.Statement {
	var kinds []record.Statement
	for _, k := range list[:min(len(list), kindsSaid)] {
		kinds = append(kinds, say("errors.kind", with{"cause": k.name, "connect": k.connect, "idle": k.idle, "check": k.check, "count": k.count}))
	}
	return kinds
}

// whatWasAsked returns the path of the target, or says that there are several.
func (f *runFacts) whatWasAsked() record.Statement {
	targets := f.run.Spec.Targets
	url := f.run.Target
	if len(targets) == 1 {
		url = targets[0].URL
	}
	path := ""
	if _, target, err := spec.SplitURL(url); err == nil {
		path, _, _ = strings.Cut(target, "?") // a query may hold a token
	}
	return say("target", with{"targets": len(targets), "path": path})
}

// methodOf returns the method of the target; "" if there are several.
func methodOf(s *spec.Spec) string {
	if len(s.Targets) == 1 {
		return s.Targets[0].Method
	}
	return ""
}

func (f *runFacts) errorEvidence() []record.Evidence {
	share := f.errorShare.value
	list := []record.Evidence{record.NewEvidence("errors", share, "share",
		say("errors.share", with{"share": share, "causes": causesOf(f.run), "connects": onlyConnects(f)}))}
	if f.bad > 0 {
		list = append(list, record.NewEvidence("statuses", f.bad, "responses",
			say("errors.statuses", with{"responses": f.bad, "expected": f.run.Spec.Expect.String()})))
	}
	kinds := f.errorKinds()
	responses := slices.Clone(f.run.ErrorResponses)
	at := func(e record.ErrorResponse) int {
		return slices.IndexFunc(kinds, func(k errorKind) bool { return k.name == e.Code() })
	}
	responses = slices.DeleteFunc(responses, func(e record.ErrorResponse) bool { return at(e) < 0 || e.Line == "" && e.Check == "" })
	slices.SortFunc(responses, func(a, b record.ErrorResponse) int { return cmp.Compare(at(a), at(b)) })
	for _, e := range responses[:min(len(responses), kindsSaid)] {
		list = append(list, record.NewEvidence("error_responses", float64(e.Status), "status",
			say("errors.response", with{"status": e.Code(), "check": e.Check, "line": quoted(e.Line)})))
	}
	return list
}

// quoted returns a line in quotes, and "" as it is.
func quoted(line string) string {
	if line == "" {
		return ""
	}
	return strconv.Quote(line)
}

// errorsNext says what to do about the most frequent error.
func (f *serverSide) errorsNext() []record.Statement {
	run := f.base.run
	if mostlyTimeouts(f.base) {
		return f.timeoutNext()
	}
	if next := f.base.databaseRefuses(); next != nil {
		return next
	}
	if next := otherProtocol(run); next != nil {
		return next
	}
	kinds := f.base.errorKinds()
	if len(kinds) == 0 {
		return just("errors.next", nil)
	}
	name := kinds[0].name
	if kinds[0].connect {
		return connectsNext(run)
	}
	if kinds[0].check {
		return just("errors.next.check", nil)
	}
	status := with{"status": name}
	switch {
	case name == "404" || name == "410":
		return just("errors.next.path", with{"status": name, "asked": f.base.whatWasAsked()})
	case name == "401" || name == "407":
		return just("errors.next.credentials", status)
	case name == "403":
		return just("errors.next.forbidden", status)
	case name == "405" || name == "501":
		return just("errors.next.method", with{"status": name, "method": methodOf(&run.Spec), "asked": f.base.whatWasAsked()})
	case name == "413":
		return just("errors.next.body-size", status)
	case name == "415":
		return just("errors.next.body-type", status)
	case name == "426" || name == "505":
		return just("errors.next.http-version", status)
	case name == "502" || name == "504":
		return just("errors.next.upstream", status)
	case name == "429":
		return just("errors.next.rate-limit", nil)
	case name == "503":
		return just("errors.next.refuses", nil)
	case len(name) == 3 && name >= "400" && name < "500":
		return just("errors.next.request", status)
	case len(name) == 3 && name >= "100" && name < "400":
		return just("errors.next.expect", with{"status": name, "expected": run.Spec.Expect.String()})
	}
	return just("errors.next", nil)
}

// connectsNext says what to do about the most frequent error of opening a connection, if others were
// opened.
func connectsNext(run *record.Run) []record.Statement {
	e, _ := mostFrequent(run, func(e record.Error) bool { return e.OfConnecting() && originOf(run, e) != record.OfLocal })
	only := *run
	only.Errors = []record.Error{e}
	if unconnectedBy(e, run.Spec.OverUnix()) == "refused" {
		return just("outage.next", nil)
	}
	_, next := unconnected(&only)
	return next
}

// databaseRefuses says what to do if the first error response repeats a PostgreSQL message about
// its connections or its disk (Appendix A of its manual: 53300 and 53100).
func (f *runFacts) databaseRefuses() []record.Statement {
	says := func(words ...string) bool {
		return slices.ContainsFunc(f.run.ErrorResponses, func(e record.ErrorResponse) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(e.Line, w) })
		})
	}
	switch {
	case says("SQLSTATE 53300", "too many clients already", "remaining connection slots are reserved"):
		most := 0
		if d := f.run.Database; d != nil {
			most = d.MaxConnections
		}
		return just("database.connections.next", with{"most": most})
	case says("SQLSTATE 53100", "could not extend file", "database or disk is full"):
		return just("database.disk-full.next", nil)
	}
	return nil
}

// timeoutNext says what to do about requests that timed out.
func (f *serverSide) timeoutNext() []record.Statement {
	if f.neverAccepted() > 0 {
		return f.unacceptedNext() // they would time out however long the timeout is
	}
	if w := askedWait(f); w != nil {
		return just("errors.next.asked-wait", w)
	}
	return just("errors.next.timeout", nil)
}

// mostlyTimeouts reports whether at least half of the errors are timeouts.
func mostlyTimeouts(f *runFacts) bool {
	tried := float64(f.run.Requests.Completed) + float64(f.run.Requests.Failed) + f.connects
	return f.timeouts > 0 && (f.timeouts+f.behindTimeouts)*2 >= f.errorShare.value*tried
}

// askedWait describes a closed loop whose own requests in flight take longer than the timeout, by
// Little's law at the rate that the server answered; nil if they do not, or if the server never
// accepts some of the connections.
func askedWait(server *serverSide) with {
	f := server.base
	timeout := f.run.Spec.Timeout.Seconds()
	if f.open || !(f.rate > 0) || timeout <= 0 || f.slots/f.rate < timeout || server.neverAccepted() > 0 {
		return nil
	}
	wait := f.slots / f.rate
	return with{"in_flight": f.slots, "per_s": f.rate, "wait_ns": wait * 1e9, "timeout_ns": timeout * 1e9,
		"connections": math.Max(1, math.Floor(f.rate*timeout/2/float64(max(f.run.Load.Pipelining, 1)))), "give_s": math.Ceil(2 * wait)}
}
