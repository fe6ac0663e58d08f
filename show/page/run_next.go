package page

import (
	"fmt"
	"reflect"

	"ceiling/experiment/spec"
	"ceiling/internal/text"
	"ceiling/show/chart"
)

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
