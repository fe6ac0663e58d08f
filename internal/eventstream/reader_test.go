package eventstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
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
		{"data:" + `{"seq": 1}` + "\n\ndata:" + `{"unix_ns":5}` + "\n\n", []string{none, "0 5 0 "}},
		{"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []string{none}},
		{"\xef\xbb\xbf\n\ndata\n\n", []string{none}},
		{": a comment\n\nevent: none\n\nretry: 5\n\ndatum: none\n\n\n\n", nil},
		{"data: a\ndata: b\n\ndata: c\n\n", []string{none, none}},
		{"data: a\ndata: " + `{"seq":9}` + "\n\n", []string{none}}, // a mark is in the first line
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
	if cap(r.part) > 4*kept {
		t.Errorf("%d bytes of a line are held", cap(r.part))
	}
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
