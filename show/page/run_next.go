package page

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/text"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
)

// commandIn returns the command at the end of a next step: "separate them: ceiling run …",
// whatever the program's file name; "" if there is none.
func commandIn(next string) string {
	for rest := ": " + next; ; {
		_, after, found := strings.Cut(rest, ": ")
		if !found {
			return ""
		}
		word, _, more := strings.Cut(after, " ")
		if more && strings.HasSuffix(path.Base(word), "ceiling") {
			return after
		}
		rest = after
	}
}

// compareNext returns the command that compares two runs' servers, if it fits on one line.
func compareNext(runs []chart.Run) string {
	if len(runs) != 2 || !plainGet(&runs[0].Spec) || !plainGet(&runs[1].Spec) || runs[0].Spec.Connections != runs[1].Spec.Connections {
		return ""
	}
	a, b := runs[0].Spec.Targets[0].URL, runs[1].Spec.Targets[0].URL
	if a == b || runs[0].Spec.Open() || runs[1].Spec.Open() {
		return ""
	}
	return fmt.Sprintf("ceiling compare -c %d %s %s", runs[0].Spec.Connections, text.Word(a), text.Word(b))
}

// plainGet reports whether connections and a URL describe the load completely.
func plainGet(s *spec.Spec) bool {
	if len(s.Targets) != 1 || s.NewConnections > 0 || s.TLS != nil || s.Kind != "" || !reflect.ValueOf(s.Dial).IsZero() {
		return false
	}
	t := &s.Targets[0]
	return (t.Method == "" || t.Method == "GET") && len(t.Header) == 0 && len(t.Body) == 0 && t.BodyHidden == nil && redact(t.URL) == t.URL
}

// nextRun suggests a command for a run whose verdict has none: a rerun if it is invalid, a search
// for the rate that meets its SLO, or an experiment that explains its bottleneck. It returns ""
// if no single line describes the load completely.
func nextRun(run *chart.Run) string {
	v := &run.Verdict
	if v.Bottleneck == record.Failures {
		return "" // it would fail again
	}
	if run.Unfinished || run.Interrupted || v.Outcome == record.Invalid {
		return report.Again(run.Command)
	}
	s := &run.Spec
	if !plainGet(s) {
		return ""
	}
	at := text.Word(s.Targets[0].URL)
	load := fmt.Sprintf("-c %d %s", s.Connections, at)
	switch {
	case len(s.SLO) > 0:
		return fmt.Sprintf("ceiling find --slo %s %s", text.Word(s.SLO.String()), at)
	case s.Open():
		return "ceiling run " + load
	case v.Bottleneck == record.ServerCPU:
		return "ceiling profile " + load
	}
	return "ceiling prove " + load
}
