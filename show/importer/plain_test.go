package importer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"ceiling/internal/needs"
)

// eachLine puts a text before every line.
func eachLine(data []byte, prefix func(i int) string) []byte {
	var out bytes.Buffer
	i := 0
	for line := range bytes.Lines(data) {
		fmt.Fprintf(&out, "%s%s", prefix(i), line)
		i++
	}
	return out.Bytes()
}

func inUTF16(data []byte, order binary.AppendByteOrder, mark bool) []byte {
	var out []byte
	if mark {
		out = order.AppendUint16(out, 0xfeff)
	}
	for _, unit := range utf16.Encode([]rune(string(data))) {
		out = order.AppendUint16(out, unit)
	}
	return out
}

// wrappings are what comes between a tool and the file that is read.
func wrappings() map[string]func([]byte) []byte {
	constant := func(text string) func([]byte) []byte {
		return func(data []byte) []byte { return eachLine(data, func(int) string { return text }) }
	}
	began := time.Date(2026, 1, 1, 23, 59, 58, 0, time.UTC)
	times := func(layout, after string) func([]byte) []byte {
		return func(data []byte) []byte {
			return eachLine(data, func(i int) string { return began.Add(time.Duration(i)*137_123_456).Format(layout) + after })
		}
	}
	compose := constant("web-1  | ")
	return map[string]func([]byte) []byte{
		"UTF-8 with a mark":       func(data []byte) []byte { return append([]byte("\xef\xbb\xbf"), data...) },
		"UTF-16 LE":               func(data []byte) []byte { return inUTF16(data, binary.LittleEndian, true) },
		"UTF-16 BE":               func(data []byte) []byte { return inUTF16(data, binary.BigEndian, true) },
		"UTF-16 LE, no mark":      func(data []byte) []byte { return inUTF16(data, binary.LittleEndian, false) },
		"UTF-16 BE, no mark":      func(data []byte) []byte { return inUTF16(data, binary.BigEndian, false) },
		"PowerShell":              func(data []byte) []byte { return inUTF16(crlf(data), binary.LittleEndian, true) },
		"CRLF":                    crlf,
		"docker compose":          compose,
		"docker compose, colours": constant("\x1b[36mload_gen-1  |\x1b[0m "),
		"docker compose, two services": func(data []byte) []byte {
			return eachLine(data, func(i int) string { return []string{"wrk-1  | ", "wrk-1  | ", "db-1   | ready\nwrk-1  | "}[i%3] })
		},
		"docker compose up": func(data []byte) []byte {
			return fmt.Appendf(nil, "Attaching to web-1\n%sweb-1 exited with code 0\n", compose(data))
		},
		"docker compose -t":    func(data []byte) []byte { return compose(times(time.RFC3339Nano, " ")(data)) },
		"GitHub Actions":       times("2006-01-02T15:04:05.0000000Z", " "),
		"gh run view --log":    times("load\tRun wrk\t2006-01-02T15:04:05.0000000Z", " "),
		"GitLab":               times("2006-01-02T15:04:05.000000Z", " 01O "),
		"kubectl --timestamps": times(time.RFC3339Nano, " "),
		"Kubernetes' files":    times(time.RFC3339Nano, " stdout F "),
		"Jenkins":              times("[2006-01-02T15:04:05.000Z]", " "),
		"times of day":         times("15:04:05", " "),
		"ts":                   times("Jan _2 15:04:05 ", ""),
		"journalctl":           times("Jan _2 15:04:05 host load[123]:", " "),
		"date and time":        times("2006-01-02 15:04:05,000", " "),
		"=>":                   constant("# => "),
		"a comment":            constant("# "),
		"a comment in Go":      constant("// "),
		"quoted":               constant("> "),
		"quoted twice":         constant("> > "),
		"quoted twice, close":  constant(">> "),
		"a shell's prompt":     constant("$ "),
		"a name":               constant("[load generator] "),
		"a name and a colon":   constant("generator: "),
		"indented":             constant("    "),
		"a tab":                constant("\t"),
		"quoted, then logged":  func(data []byte) []byte { return compose(constant("# => ")(times(time.RFC3339, " ")(data))) },
		"no blanks at ends": func(data []byte) []byte {
			return bytes.ReplaceAll(constant("# => ")(data), []byte("# => \n"), []byte("# =>\n"))
		},
		"colours": constant("\x1b[32m\x1b[1m"),
	}
}

func crlf(data []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
}

// TestPlain: every output is the same however it came into the file.
func TestPlain(t *testing.T) {
	needs.Time(t)
	asJSON := func(data []byte) string {
		t.Helper()
		r, err := Parse(data)
		text, failed := json.MarshalIndent(&r, "", "  ")
		if failed != nil {
			t.Fatal(failed)
		}
		return fmt.Sprintf("%s\n%v", text, err)
	}
	for _, file := range outputs(t) {
		if file.Name == filepath.Base(vegetaFile) {
			continue // no text
		}
		want := asJSON(file.Data)
		for name, wrap := range wrappings() {
			if file.Name == "wrk_refused.txt" && strings.HasPrefix(name, "a name") {
				continue // one line
			}
			if diff := cmp.Diff(want, asJSON(wrap(file.Data))); diff != "" {
				t.Errorf("%s, %s:\n%s", file.Name, name, diff)
			}
		}
	}
}

// TestPlainResults: vegeta's results, one JSON a line, are read from a log too.
func TestPlainResults(t *testing.T) {
	var lines bytes.Buffer
	if err := vegetaResults(200, json.NewEncoder(&lines).Encode); err != nil {
		t.Fatal(err)
	}
	for name, wrap := range wrappings() {
		if r, err := Read(bytes.NewReader(wrap(lines.Bytes()))); (err != nil || r.Requests != 196) && !strings.Contains(name, "up") &&
			!strings.Contains(name, "two services") {
			t.Errorf("%s: %d requests, %v", name, r.Requests, err)
		}
	}
}
