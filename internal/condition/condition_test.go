package condition

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"
)

func TestHolds(t *testing.T) {
	t.Parallel()
	r := &Response{
		Head: []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nX-Empty:\r\n\r\n"),
		Body: []byte(`{"status":"up","n":5,"big":12345678901,"ok":true,"none":null,"items":[{"id":7,"a.b":"dot"}],"text":"5","*":"star"}`),
	}
	for line, want := range map[string]bool{
		`body contains "status":"up"`:               false, // in quotes it is JSON's string, and this is none: an error below
		`body contains up`:                          true,
		`body contains "up"`:                        true,
		`body not contains down`:                    true,
		`body matches ^\{"status":"(up|warm)"`:      true,
		`body matches ^up`:                          false,
		`body == pong`:                              false,
		`bytes < 1000`:                              true,
		`bytes >= 1000`:                             false,
		`bytes != 0`:                                true,
		`json $.status == "up"`:                     true,
		`json $.status == up`:                       true,
		`jsonpath $.status == "up"`:                 true,
		`json status != down`:                       true,
		`json $.n == 5`:                             true,
		`json $.n == 5.0`:                           true,
		`json $.n == "5"`:                           false,
		`json $.text == "5"`:                        true,
		`json $.text == 5`:                          false,
		`json $.n > 4`:                              true,
		`json $.n >= 5`:                             true,
		`json $.n < 5`:                              false,
		`json $.status > 4`:                         false,
		`json $.status not > 4`:                     false, // neither
		`json $.big == 12345678901`:                 true,
		`json $.ok == true`:                         true,
		`json $.ok == "true"`:                       false,
		`json $.none == null`:                       true,
		`json $.none exists`:                        true,
		`json $.items[0].id == 7`:                   true,
		`json $.items[1].id exists`:                 false,
		`json $.items[1].id not exists`:             true,
		`json $.items contains "id"`:                true,
		`json $.* exists`:                           false, // an error below
		`json $.missing == 1`:                       false,
		`json $.missing != 1`:                       true,
		`header content-type contains json`:         true,
		`header Content-Type == "application/json"`: false,
		`header X-Empty exists`:                     true,
		`header X-None not exists`:                  true,
		`header Content-Type matches ^application/`: true,
	} {
		c, err := Parse(line)
		if strings.Contains(line, `.*`) || strings.Contains(line, `"status":"up"`) && strings.HasPrefix(line, "body contains") {
			if err == nil {
				t.Errorf("%s is accepted", line)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got, found := c.Holds(r); got != want {
			t.Errorf("%s: %v, found %s", line, got, found)
		}
		text, _ := c.MarshalText()
		var again Condition
		if err := again.UnmarshalText(text); err != nil || again.String() != line {
			t.Errorf("%s comes back as %s: %v", line, again.String(), err)
		}
	}
}

func TestBodyInGzip(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, body := range [][]byte{b.Bytes(), b.Bytes()[:8], {0x1f, 0x8b}} {
		c, err := Parse("json $.a == 1")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := c.Holds(&Response{Body: body}); got != (len(body) == b.Len()) {
			t.Errorf("%d bytes: %v", len(body), got)
		}
	}
}

func TestFound(t *testing.T) {
	t.Parallel()
	r := &Response{Head: []byte("A: b\r\n"), Body: []byte(`{"n":[1,2]}`)}
	for line, want := range map[string]string{
		"json $.n == 3": "[1,2]", "json $.m == 3": "", "header A == c": "b", "bytes > 20": "11 bytes", "body == x": `{"n":[1,2]}`,
		"json $.n > 3": "[1,2]",
	} {
		c, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if holds, found := c.Holds(r); holds || found != want {
			t.Errorf("%s: %v %q", line, holds, found)
		}
	}
}

func TestBadConditions(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                           "give statuses",
		"text contains x":            "give statuses",
		"status == 200":              "give only statuses",
		"body":                       "compared by",
		"body exists":                "compared by",
		"body contains":              "missing",
		`body contains "x`:           "in quotes",
		"body matches (":             "missing closing",
		"bytes < many":               "not a number",
		"json $.a > b":               "not a number",
		"json $.a[x] == 1":           "a number from 0",
		"json $.a[0 == 1":            "a number from 0",
		"json $..a == 1":             "a name is missing",
		"json $.a[*] == 1":           "a number from 0",
		"header A exists b":          "nothing follows",
		"json == 5":                  "compared by",
		"body startsWith \"x\"":      "compared by",
		"header Content-Type":        "compared by",
		"json $.a not":               "compared by",
		"body contains \"a\" \"b\"":  "in quotes",
		"jsonpath $.items[-1] == \"": "a number from 0",
	} {
		_, err := Parse(line)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
}

func FuzzHolds(f *testing.F) {
	f.Add("json $.a[0].b == 5", []byte(`{"a":[{"b":5}]}`))
	f.Add("body matches ^a", []byte("a"))
	f.Fuzz(func(_ *testing.T, line string, body []byte) {
		if c, err := Parse(line); err == nil {
			c.Holds(&Response{Head: body, Body: body})
		}
	})
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	r := &Response{Head: []byte("Location: /orders/42\r\n"), Body: []byte(`{"token":"a b","n":5,"form":"<input name=\"csrf\" value=\"x9\">"}`)}
	for line, want := range map[string]string{
		"json $.token": "a b", "jsonpath $.token": "a b", "json $.n": "5", "header location": "/orders/42", `header Location /orders/(\d+)`: "42", `header Location \d`: "4",
		`body value=\\"([^\\]+)`: "x9", "json $.none": "-", `body nothing(\d)`: "-", "header X-None": "-",
	} {
		s, err := ParseSelector(line)
		if err != nil {
			t.Fatal(err)
		}
		got, exists := s.In(r)
		if !exists {
			got = "-"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	for line, want := range map[string]string{
		"": "taken from", "token": "taken from", "json": "a path follows", "json $.a b": "a path follows", "json $.a[*]": "a number from 0",
		"header": "name is missing", "body": "is missing", "body (": "missing closing", "bytes": "taken from",
	} {
		if _, err := ParseSelector(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
}

// TestFields: each field of the name, a folded one as one value.
func TestFields(t *testing.T) {
	head := []byte("HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\n\tthree\r\nX-B: b\r\n c\r\nx-a: four\r\nX-A: last\r\n line\r\n\r\n")
	if got := slices.Collect(Fields(head, "X-A")); !slices.Equal(got, []string{"one two three", "four", "last line"}) {
		t.Errorf("%q", got)
	}
	for first := range Fields(head, "X-A") {
		if first != "one two three" {
			t.Errorf("%q", first)
		}
		break
	}
}
