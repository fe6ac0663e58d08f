package importer

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strings"
	"unicode/utf16"

	"ceiling/internal/lazy"
)

// plain returns a text as its tool printed it: UTF-8 with line feeds, without colours, and without
// what a log, a shell or a quotation put before its lines.
func plain(data []byte) []byte {
	text := colours().ReplaceAll(decoded(data), nil)
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	lines = byService(lines)
	for range prefixesMost {
		if !cutKnown(lines) && !cutCommon(lines) {
			break
		}
	}
	return bytes.TrimSpace([]byte(strings.Join(lines, "\n")))
}

// colours matches a terminal's escape sequences: colours, the cursor, titles and links.
var colours = lazy.Regexp("\x1b(?:\\[[0-9;?]*[A-Za-z]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\))")

// prefixesMost is how many prefixes a line may have: a container's name, a time, a quotation.
const prefixesMost = 8

// decoded returns UTF-8 of UTF-8 or UTF-16 (Windows PowerShell writes it to files) with or without
// its byte order mark.
func decoded(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(data) < 2 {
		return data
	}
	var order binary.ByteOrder
	switch { // without a mark the first character, which is ASCII, tells
	case data[0] == 0xff && data[1] == 0xfe, data[0] != 0 && data[1] == 0:
		order = binary.LittleEndian
	case data[0] == 0xfe && data[1] == 0xff, data[0] == 0 && data[1] != 0:
		order = binary.BigEndian
	default:
		return data
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	return []byte(strings.TrimPrefix(string(utf16.Decode(units)), "\ufeff"))
}

// What others put before a line, and what may differ from line to line: the parts are those of time
// stamps.
const (
	clock = `\d\d:\d\d:\d\d(?:[.,]\d+)?`
	stamp = `\d{4}[-/]\d\d[-/]\d\d[T ]` + clock + `(?:Z| ?[+-]\d\d:?\d\d)?`
)

var (
	prefixStep    = lazy.Regexp(`^[^\t]+\t[^\t]+\t\x{feff}?` + stamp + `(?: |$)`)      // gh run view --log
	prefixService = lazy.Regexp(`^[A-Za-z0-9][\w./-]* *\|(?: |$)`)                     // docker compose
	prefixStamp   = lazy.Regexp(`^\[?` + stamp + `\]?` + prefixStream + `(?:[ \t]|$)`) // GitHub, Kubernetes, Jenkins
	prefixClock   = lazy.Regexp(`^\[?` + clock + `\]?(?:[ \t]|$)`)
	prefixSyslog  = lazy.Regexp(`^[A-Z][a-z]{2} [ \d]\d ` + clock + `(?: \S+ [^\s:]+\[\d+\]:)?(?: |$)`) // journalctl
	prefixResult  = lazy.Regexp(`^# =>(?: |$)`)
	prefixQuote   = lazy.Regexp(`^(?:#+|>+|\$|//|;)(?: |$)`)
)

// prefixStream is what GitLab and Kubernetes put behind the time: 00O+, stdout F.
const prefixStream = `(?: \d\d[OE]\+?| std(?:out|err) [FP])?`

func prefixes() []*regexp.Regexp {
	return []*regexp.Regexp{prefixStep(), prefixStamp(), prefixClock(), prefixSyslog(), prefixResult(), prefixQuote()}
}

// cutKnown cuts the first known prefix that most of the text has.
func cutKnown(lines []string) bool {
	for _, prefix := range prefixes() {
		if !mostHave(lines, prefix) {
			continue
		}
		for i, line := range lines {
			if at := prefix.FindStringIndex(line); at != nil {
				lines[i] = line[at[1]:]
			}
		}
		return true
	}
	return false
}

// byService puts the lines of each service of docker compose together, and compose's own last.
func byService(lines []string) []string {
	if !mostHave(lines, prefixService()) {
		return lines
	}
	var names []string
	of := map[string][]string{}
	for _, line := range lines {
		name := prefixService().FindString(line)
		if of[name] == nil && name != "" {
			names = append(names, name)
		}
		of[name] = append(of[name], line[len(name):])
	}
	var sorted []string
	for _, name := range append(names, "") {
		sorted = append(append(sorted, of[name]...), "")
	}
	return sorted
}

// mostHave reports whether most of the text is on lines with a prefix.
func mostHave(lines []string, prefix *regexp.Regexp) bool {
	with, all := 0, 0
	for _, line := range lines {
		all += len(line)
		if prefix.MatchString(line) {
			with += len(line)
		}
	}
	return 2*with > all
}

// leastLines is the least number of lines with a prefix in common: no text of a tool has fewer, and
// JSON shows where it begins.
const leastLines = 3

// cutCommon cuts the words, or the blanks, that all lines begin with.
func cutCommon(lines []string) bool {
	prefix, written := "", 0
	for _, line := range lines { // the longest: a short one may be the prefix alone
		if len(line) > len(prefix) {
			prefix = line
		}
		if strings.TrimSpace(line) != "" {
			written++
		}
	}
	prefix, _, isJSON := strings.Cut(prefix, "{")
	for _, line := range lines {
		if !strings.HasPrefix(prefix, strings.TrimRight(line, " \t")) {
			prefix = prefix[:commonLength(prefix, line)]
		}
	}
	prefix = prefix[:strings.LastIndexAny(prefix, " \t")+1]
	if prefix == "" || written < leastLines && !isJSON {
		return false
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, prefix)
		if len(line) < len(prefix) {
			lines[i] = ""
		}
	}
	return true
}

func commonLength(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
