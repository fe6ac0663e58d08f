package data

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ceiling/measure/load"
)

func file(t testing.TB, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// sent are the first n requests of each of some workers.
func sent(t testing.TB, mix []load.Request, feed *Feed, workers, n int, ordered bool) (list []string, err error) {
	t.Helper()
	c, err := Composing(mix, feed, workers, 7, ordered)
	if err != nil {
		return nil, err
	}
	for w := range workers {
		s, err := c.New(w)
		if err != nil {
			t.Fatal(err)
		}
		made, err := s.Next(nil, n)
		if err != nil {
			return nil, err
		}
		for _, r := range made {
			list = append(list, string(r.Bytes))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	return list, nil
}

func request(text string) []load.Request {
	return []load.Request{{Bytes: []byte(strings.ReplaceAll(text, "\n", "\r\n")), Weight: 1}}
}

// TestPlaces: a value is written as its place needs it, and the length of the body is right.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ name, rows, request, want string }{
		{"a.csv", "user,say\nann,\"a \"\"b\"\"\n, c&d\"\n", "GET /u/{{.user}}?q={{ .say }} HTTP/1.1\nHost: h\n\n",
			"GET /u/ann?q=a%20%22b%22%0A%2C%20c%26d HTTP/1.1\nHost: h\n\n"},
		{"b.csv", "say\n\"a\"\"\\\nb\"\n", "POST / HTTP/1.1\nContent-Length: 99\nA: b\n\n{\"say\": \"{{.say}}\"}",
			"POST / HTTP/1.1\nContent-Length: 23\nA: b\n\n{\"say\": \"a\\\"\\\\\\u000ab\"}"},
		{"c.csv", "say\na b&c\n", "POST / HTTP/1.1\nContent-Type: application/x-www-form-urlencoded\nContent-Length: 1\n\nq={{.say}}",
			"POST / HTTP/1.1\nContent-Type: application/x-www-form-urlencoded\nContent-Length: 11\n\nq=a%20b%26c"},
		{"d.ndjson", `{"id": 7, "name": "ä", "more": {"a": [1]}}` + "\n", "PUT /{{.id}} HTTP/1.1\nX: {{.name}}\nContent-Length: 0\n\n{{.more}}",
			"PUT /7 HTTP/1.1\nX: ä\nContent-Length: 10\n\n{\"a\": [1]}"},
		{"e.txt", "one\n\ntwo\n", "GET /{{.line}} HTTP/1.1\n\n", "GET /one HTTP/1.1\n\n"},
		{"f.csv", "\ufeffa;b\n1;2\n", "GET /{{.a}}{{.b}} HTTP/1.1\n\n", "GET /12 HTTP/1.1\n\n"},
		{"g.tsv", "a\tb\n1\t2,3\n", "GET /{{.b}} HTTP/1.1\n\n", "GET /2%2C3 HTTP/1.1\n\n"},
	} {
		feed, err := Open(file(t, c.name, c.rows), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, err := sent(t, request(c.request), feed, 1, 1, true)
		// In JSON the line break of a request is the test's own; what is written for it has none.
		if want := strings.ReplaceAll(c.want, "\n", "\r\n"); err != nil || got[0] != want {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, want)
		}
	}
}

// TestEachRowOnce: over all workers, before any is sent again, also in a file with fewer rows than workers.
func TestEachRowOnce(t *testing.T) {
	for i, rows := range []int{1, 2, 5, 12, 1, 2, 5, 12} {
		streamed := i > 3
		text := "n\n"
		for i := range rows {
			text += fmt.Sprintln(i)
		}
		feed, err := Open(file(t, "n.csv", text), nil)
		if err != nil || feed.Rows != uint64(rows) || feed.table == nil {
			t.Fatal(feed, err)
		}
		if streamed {
			feed.table = nil // as for a large file
		}
		got, err := sent(t, request("GET /{{.n}}/{{seq}} HTTP/1.1\n\n"), feed, 3, 2*rows, true)
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, r := range got {
			path := strings.Fields(r)[1]
			n, _, _ := strings.Cut(path[1:], "/")
			count[n]++
			count[path]++
		}
		for n := range rows {
			if got := count[fmt.Sprint(n)]; got != 6 {
				t.Errorf("%d rows: row %d was sent %d times of 6", rows, n, got)
			}
		}
		if len(count) != rows+6*rows {
			t.Errorf("%d rows: %d numbers", rows, len(count)-rows)
		}
	}
}

// TestOrderAndSeed: the mix in its own order, or shuffled with its weights, the same for a seed.
func TestOrderAndSeed(t *testing.T) {
	mix := append(request("GET /a HTTP/1.1\n\n"), request("GET /b/{{random 1 3}}/{{uuid}} HTTP/1.1\n\n")...)
	mix[0].Weight = 3
	got, err := sent(t, mix, nil, 1, 8, true)
	if err != nil || !strings.HasPrefix(got[0], "GET /a ") || !strings.HasPrefix(got[3], "GET /b/") || !strings.HasPrefix(got[7], "GET /b/") || got[3] == got[7] {
		t.Errorf("%q, %v", got, err)
	}
	one, _ := sent(t, mix, nil, 1, 40, false)
	two, _ := sent(t, mix, nil, 1, 40, false)
	if !slices.Equal(one, two) {
		t.Error("the same seed, other requests")
	}
}

// TestMistakes: each is one line that says what, and where.
func TestMistakes(t *testing.T) {
	get := "GET /{{.a}} HTTP/1.1\n\n"
	for _, c := range []struct{ name, rows, request, want string }{
		{"a.csv", "a,b\n1,2\n3\n", get, "line 3: 1 values, and the header has 2 columns"},
		{"a.csv", "a,b\n", get, "no row in it"},
		{"a.csv", "", get, "its first line is empty"},
		{"a.csv", "a,a\n1,2\n", get, `two columns are called "a"`},
		{"a.csv", "a\n\"1\n", get, "line 2"},
		{"a.csv", "x,y\n1,2\n", get, "{{.a}}: "},
		{"a.csv", "a\n1\n", "GET /{{.a}}/{{uid}} HTTP/1.1\n\n", "{{uid}}: there are {{.column}}"},
		{"a.csv", "a\n1\n", "GET /{{random 9 1}} HTTP/1.1\n\n", "the smaller one first"},
		{"a.csv", "a\n\"1\n2\"\n", "GET / HTTP/1.1\nX: {{.a}}\n\n", "a control character in its value"},
		{"a.json", `{"a": 1}` + "\n{\"b\": 1}\n", get, `line 2: no value of "a"`},
		{"a.json", `{"a": 1}` + "\n{\n", get, "line 2"},
		{"a.txt", "a\n" + strings.Repeat("x", lineMost+1) + "\n", get, "line 2: longer than"},
	} {
		feed, err := Open(file(t, c.name, c.rows), nil)
		if err == nil {
			_, err = sent(t, request(c.request), feed, 1, 3, true)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", c.rows[:min(len(c.rows), 20)], err, c.want)
		}
	}
	if _, err := Open(t.TempDir(), nil); err == nil {
		t.Error("a directory has rows")
	}
	if _, err := sent(t, request(get), nil, 1, 1, true); err == nil || !strings.Contains(err.Error(), "give --feed FILE") {
		t.Errorf("no data: %v", err)
	}
	feed, err := Open("-", strings.NewReader("a\n1\n"))
	if err != nil || feed.Name != "standard input" || feed.Rows != 1 {
		t.Errorf("%+v, %v", feed, err)
	}
}

// TestReplay: the workers have, between them, the order that was given.
func TestReplay(t *testing.T) {
	mix := append(request("GET /a HTTP/1.1\n\n"), request("GET /b HTTP/1.1\n\n")...)
	order := []int{1, 0, 0, 1, 1}
	c, err := Replay(mix, order, []int64{0, 1, 2, 3, 4}, 2)
	if err != nil || len(c.Times) != 5 {
		t.Fatal(c, err)
	}
	got := make([]int, len(order))
	for w := range 2 {
		s, err := c.New(w)
		if err != nil {
			t.Fatal(err)
		}
		made, err := s.Next(nil, 3-w)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range made {
			got[w+2*i] = int(r.Target)
			if want := "GET /" + string("ab"[r.Target]) + " "; !strings.HasPrefix(string(r.Bytes), want) {
				t.Errorf("target %d: %q", r.Target, r.Bytes)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(got, order) {
		t.Errorf("%v, want %v", got, order)
	}
}
