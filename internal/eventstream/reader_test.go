package eventstream

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// read takes text in pieces of n bytes, and tells the events.
func read(text string, n int) (list []string, err error) {
	var r Reader
	for rest := []byte(text); len(rest) > 0; {
		b := rest[:min(n, len(rest))]
		rest = rest[len(b):]
		for len(b) > 0 {
			used, done, err := r.Next(b)
			if err != nil {
				return list, err
			}
			if b = b[used:]; done {
				m := r.Mark()
				list = append(list, fmt.Sprintf("%d %d %d %s", m.Seq, m.UnixNs, m.MonotonicNs, m.Boot))
			}
		}
	}
	if r.EOF() != nil {
		list = append(list, "cut")
	}
	return list, nil
}

const whole = `{"seq":17,"unix_ns":1732378123000000000,"monotonic_ns":81234567890,"boot":"1f2e3d4c","pad":"x"}`

// TestEventsAreFound: whatever ends a line, wherever the bytes are cut.
func TestEventsAreFound(t *testing.T) {
	const none = "0 0 0 "
	for _, k := range []struct {
		text string
		want []string
	}{
		{"data: x\n\n", []string{none}},
		{"id: 17\ndata: " + whole + "\n\n", []string{"17 1732378123000000000 81234567890 1f2e3d4c"}},
		{"data:" + `{"seq": 1}` + "\n\ndata:" + `{"unix_ns":5}` + "\n\n", []string{"1 0 0 ", "0 5 0 "}},
		{"data: {\ndata:   \"pad\": [1, {\"seq\": 7}, \"}\"],\ndata:   \"seq\"\ndata: : 9\ndata: }\n\n", []string{"9 0 0 "}},
		{"data:\t" + `{"seq":"12"}` + "\n\ndata: " + `{"\u0073\u0065q":1.2e3}` + "\n\ndata: " + `[{"seq":1}]` + "\n\n", []string{"12 0 0 ", "1200 0 0 ", none}},
		{"data: " + `{"seq":-1}` + "\n\ndata: " + `{"seq":1.5}` + "\n\ndata: " + `{"seq":null}` + "\n\ndata: " + `{"a":{"seq":1}}` + "\n\n", []string{none, none, none, none}},
		{"data: " + `{"a":"\"seq\":3,\\","seq": 4 , "boot" : "1f2e3d4c"}` + "\n\n", []string{"4 0 0 1f2e3d4c"}},
		{"data: " + `{"pad":"` + strings.Repeat("x", 5000) + `","seq":9}` + "\n\n", []string{"9 0 0 "}},
		{"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []string{none}},
		{"\xef\xbb\xbf\n\ndata\n\n", []string{none}},
		{": a comment\n\nevent: none\n\nretry: 5\n\ndatum: none\n\n\n\n", nil},
		{"data: a\ndata: b\n\ndata: c\n\n", []string{none, none}},
		{"data: a\ndata: " + `{"seq":9}` + "\n\n", []string{none}}, // not JSON: it begins with a
		{"data: a\n", []string{"cut"}},
		{"data: a", []string{"cut"}},
		{"data: ü€\n\n: \xff\xfe\n\n", []string{none}},
		{"data: " + strings.Repeat("x", 5000) + `{"seq":9}` + "\n\n", []string{none}},
		{"data: " + `{"seq":99999999999999999999}` + "\n\n", []string{none}},
		{"data: " + `{"seq":9000000000000000000}` + "\n\n", []string{"9000000000000000000 0 0 "}},
	} {
		for _, end := range []string{"\n", "\r\n", "\r"} {
			text := strings.ReplaceAll(k.text, "\n", end)
			for _, n := range []int{1, 2, 3, 5, 1 << 20} {
				got, err := read(text, n)
				if err != nil || !slices.Equal(got, k.want) {
					t.Errorf("%.60q in pieces of %d: %q, %v; want %q", text, n, got, err, k.want)
				}
			}
		}
	}
}

// TestRetry: the last valid one counts, in pieces of any size.
func TestRetry(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"retry: 3000\n": 3 * time.Second, "retry:5\n\nretry: soon\n": 5 * time.Millisecond, "data: 1\n\n": 0, "retry: -1\n": 0,
		"retry: 99999999999999999999\n": 0, "retry: 999999999999\n": time.Hour, "\xef\xbb\xbfretry: 20\n": 20 * time.Millisecond,
	} {
		for _, n := range []int{1, 2, 100} {
			var r Reader
			for rest := []byte(text); len(rest) > 0; {
				used, _, err := r.Next(rest[:min(n, len(rest))])
				if err != nil {
					t.Fatal(err)
				}
				rest = rest[used:]
			}
			if got := r.Retry(); got != want {
				t.Errorf("%q in pieces of %d: %v, want %v", text, n, got, want)
			}
		}
	}
}

func TestEndlessLineIsRefused(t *testing.T) {
	for _, n := range []int{1000, 1 << 14} {
		if _, err := read("data: "+strings.Repeat("x", MaxLine), n); err != ErrLine {
			t.Errorf("in pieces of %d: %v", n, err)
		}
	}
	var r Reader
	for range 20 {
		if _, _, err := r.Next([]byte(strings.Repeat("x", 1<<14))); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzMarks: of every JSON object the marks are what encoding/json reads, in pieces of any size.
func FuzzMarks(f *testing.F) {
	for _, text := range []string{whole, `{"seq": 1}`, ` { "a" : [ { "seq" : 2 } , "\"" ] , "seq" : 3e2 } `, `{"seq":"17","boot":"\u0031f2e3d4c"}`,
		`{"seq":17.0,"unix_ns":-0,"monotonic_ns":9.223372036854775807e18}`, `{"seq":{},"boot":null}`} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &object) != nil || object == nil {
			return
		}
		n = 1 + max(n, 0)%7
		var m marks
		m.begin()
		for rest := []byte(text); len(rest) > 0; rest = rest[min(n, len(rest)):] {
			m.feed(rest[:min(n, len(rest))])
		}
		want := Mark{Seq: uint64(wholeOf(object["seq"])), UnixNs: wholeOf(object["unix_ns"]), MonotonicNs: wholeOf(object["monotonic_ns"])}
		var boot string
		if json.Unmarshal(object["boot"], &boot) != nil || len(boot) != 8 || strings.ContainsFunc(boot, func(r rune) bool { return r > 126 }) {
			boot = ""
		}
		if got := m.mark; got.Seq != want.Seq || got.UnixNs != want.UnixNs || got.MonotonicNs != want.MonotonicNs ||
			boot != "" && string(got.Boot) != boot {
			t.Errorf("%q: %+v, want %+v %q", text, got, want, boot)
		}
	})
}

// wholeOf is wholeNumber by the standard library: of a number, or of a string that is one.
func wholeOf(raw json.RawMessage) int64 {
	text := string(raw)
	if json.Unmarshal(raw, &text) == nil && !json.Valid([]byte(text)) || len(text) > 24 {
		return 0
	}
	v, ok := new(big.Rat).SetString(text)
	if !ok || !v.IsInt() || v.Sign() < 0 || !v.Num().IsInt64() {
		return 0
	}
	return v.Num().Int64()
}

func FuzzReader(f *testing.F) {
	f.Add("\xef\xbb\xbfid: 1\r\ndata: "+whole+"\r\n\r\ndata\r\rdata:\n\n", 3)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = 1 + max(n, 0)%7
		one, err := read(text, 1<<20)
		parts, partErr := read(text, n)
		if err != partErr || !slices.Equal(one, parts) {
			t.Errorf("%q: %q, %v whole; %q, %v in pieces of %d", text, one, err, parts, partErr, n)
		}
	})
}
