package eventstream

import (
	"strings"
	"testing"
)

// read takes text in pieces of n bytes, and counts the events.
func read(text string, n int) (events int, err error) {
	var r Reader
	for rest := []byte(text); len(rest) > 0; {
		b := rest[:min(n, len(rest))]
		rest = rest[len(b):]
		for len(b) > 0 {
			used, done, err := r.Next(b)
			if err != nil {
				return events, err
			}
			if b = b[used:]; done {
				events++
			}
		}
	}
	return events, nil
}

// TestEventsAreFound: whatever ends a line, wherever the bytes are cut.
func TestEventsAreFound(t *testing.T) {
	for _, k := range []struct {
		text string
		want int
	}{
		{"data: x\n\n", 1},
		{"id: 17\ndata: {\"seq\":17}\n\n", 1},
		{"data:{\"seq\": 1}\n\ndata:{\"unix_ns\":5}\n\n", 2},
		{"data: {\ndata:   \"pad\": [1, {\"seq\": 7}, \"}\"],\ndata:   \"seq\"\ndata: : 9\ndata: }\n\n", 1},
		{"data:\t{\"seq\":\"12\"}\n\ndata: {}\n\ndata: [{\"seq\":1}]\n\n", 3},
		{"data: {\"pad\":\"" + strings.Repeat("x", 5000) + "\",\"seq\":9}\n\n", 1},
		{"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", 1},
		{"\xef\xbb\xbf\n\ndata\n\n", 1},
		{": a comment\n\nevent: none\n\nretry: 5\n\ndatum: none\n\n\n\n", 0},
		{"data: a\ndata: b\n\ndata: c\n\n", 2},
		{"data: a\n", 0},
		{"data: a", 0},
		{"data: ü€\n\n: \xff\xfe\n\n", 1},
	} {
		for _, end := range []string{"\n", "\r\n", "\r"} {
			text := strings.ReplaceAll(k.text, "\n", end)
			for _, n := range []int{1, 2, 3, 5, 1 << 20} {
				got, err := read(text, n)
				if err != nil || got != k.want {
					t.Errorf("%.60q in pieces of %d: %d, %v; want %d", text, n, got, err, k.want)
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
}

func FuzzReader(f *testing.F) {
	f.Add("\xef\xbb\xbfid: 1\r\ndata: x\r\n\r\ndata\r\rdata:\n\n", 3)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = 1 + max(n, 0)%7
		one, err := read(text, 1<<20)
		parts, partErr := read(text, n)
		if err != partErr || one != parts {
			t.Errorf("%q: %d, %v whole; %d, %v in pieces of %d", text, one, err, parts, partErr, n)
		}
	})
}
