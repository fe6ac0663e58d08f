package prose

import (
	"strings"

	"ceiling/internal/lazy"
)

// ofRequests matches the words for what most runs count.
var ofRequests = lazy.Regexp(`\b[Rr]equests?\b|\breq/s\b`) // read-only

// inUnit rewrites a sentence about requests in the unit of a run that counts something else:
// "messages".
func inUnit(text, unit string) string {
	return ofRequests().ReplaceAllStringFunc(text, func(word string) string {
		switch word {
		case "req/s":
			return unit + "/s"
		case "request":
			return strings.TrimSuffix(unit, "s")
		case "Request":
			return upper(strings.TrimSuffix(unit, "s"))
		case "Requests":
			return upper(unit)
		}
		return unit
	})
}
