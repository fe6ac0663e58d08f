package spec

import (
	"fmt"
	"strings"
)

// pprofMost limits the endpoints of one server.
const pprofMost = 256

// pprofPath is net/http/pprof's path.
const pprofPath = "/debug/pprof/"

// PprofOff is the value of Pprof that disables it.
const PprofOff = "off"

// PprofURLs expands the endpoints in Spec.Pprof: host:port becomes http://host:port/debug/pprof/.
// Empty for "" and "off".
func PprofURLs(text string) []string {
	if text == "" || text == PprofOff {
		return nil
	}
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if !strings.Contains(part, "://") && !strings.HasPrefix(part, "unix:") {
			part = "http://" + part
		}
		if _, rest, ok := strings.Cut(part, "://"); ok && !strings.Contains(strings.TrimSuffix(rest, "/"), "/") {
			part = strings.TrimSuffix(part, "/") + pprofPath
		}
		list = append(list, part)
	}
	return list
}

func checkPprof(text string) error {
	list := PprofURLs(text)
	if len(list) > pprofMost {
		return fmt.Errorf("pprof: %d endpoints are too many; at most %d", len(list), pprofMost)
	}
	for _, url := range list {
		if _, _, _, err := ParseTarget(url); err != nil {
			return fmt.Errorf("pprof: %w; or off", err)
		}
	}
	return nil
}

// eachPprof changes every endpoint of a list, and keeps the text as typed if nothing changes.
func eachPprof(text string, change func(string) string) string {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = change(parts[i])
	}
	return strings.Join(parts, ",")
}
