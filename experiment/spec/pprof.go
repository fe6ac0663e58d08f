package spec

import (
	"fmt"
	"strings"
)

// pprofMost bounds the endpoints of one server.
const pprofMost = 256

// pprofPath is where net/http/pprof answers.
const pprofPath = "/debug/pprof/"

// PprofOff is the Pprof that asks for none.
const PprofOff = "off"

// PprofURLs are the endpoints that Spec.Pprof names, whole: host:port stands for
// http://host:port/debug/pprof/. None of "" and "off".
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

// eachPprof changes every endpoint of a list, leaving it as it was typed where
// nothing of it changes.
func eachPprof(text string, change func(string) string) string {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = change(parts[i])
	}
	return strings.Join(parts, ",")
}
