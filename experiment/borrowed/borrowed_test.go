package borrowed_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/borrowed"
	"ceiling/experiment/spec"
)

func open(name string) ([]byte, error) {
	if name == "no" {
		return nil, errors.New("no such file")
	}
	return []byte("of " + name + "\n"), nil
}

// said writes requests as one reads them.
func said(t *testing.T, s *borrowed.Set) string {
	t.Helper()
	list, err := spec.ReadTargets(bytes.NewReader(s.Lines()), "t", "")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, one := range list {
		fmt.Fprintf(&b, "%s %s", one.Method, one.URL)
		for _, f := range one.Header {
			fmt.Fprintf(&b, " [%s: %s]", f.Name, f.Value)
		}
		if len(one.Body) > 0 {
			fmt.Fprintf(&b, " {%s}", one.Body)
		}
		if one.Weight > 1 {
			fmt.Fprintf(&b, " ×%d", one.Weight)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// TestCurl: command lines as documentation and browsers write them.
func TestCurl(t *testing.T) {
	for line, want := range map[string]string{
		"curl http://h/x":                 "GET http://h/x",
		"h/x":                             "GET http://h/x",
		"curl -sSL -o /dev/null http://h": "GET http://h",
		`curl 'http://h/a?b=1&c=2' -H 'Accept: text/html' -H 'Cookie: a=b; c=d' --compressed`:                                  "GET http://h/a?b=1&c=2 [Accept: text/html] [Cookie: a=b; c=d] [Accept-Encoding: deflate, gzip, br, zstd]",
		"curl -X PUT http://h -d a=1 -d b=2":                                                                                   "PUT http://h [Content-Type: application/x-www-form-urlencoded] {a=1&b=2}",
		`curl --location --request POST 'http://h/v1' --header 'Content-Type: application/json' --data-raw '{"a": "it'\''s"}'`: `POST http://h/v1 [Content-Type: application/json] {{"a": "it's"}}`,
		`curl http://h --json '{"a":1}'`:                                                                                       `POST http://h [Content-Type: application/json] [Accept: application/json] {{"a":1}}`,
		"curl -u me:secret http://h":                                                                                           "GET http://h [Authorization: Basic bWU6c2VjcmV0]",
		"curl -G http://h/s?x=1 --data-urlencode 'q=a b&c'":                                                                    "GET http://h/s?x=1&q=a+b%26c",
		"curl -I http://h":    "HEAD http://h",
		"curl -d @f http://h": "POST http://h [Content-Type: application/x-www-form-urlencoded] {of f}",
		"curl --data-binary @f -H 'Content-Type: a/b' http://h": "POST http://h [Content-Type: a/b] {of f\n}",
		"curl http://h \\\n  -H 'A: b' \\\n  -A me":             "GET http://h [A: b] [User-Agent: me]",
		"curl $'http://h' --data-raw $'a\\nb'":                  "POST http://h [Content-Type: application/x-www-form-urlencoded] {a\nb}",
		`curl "http://h/\$x" -H "A: \"q\""`:                     `GET http://h/$x [A: "q"]`,
	} {
		s, err := borrowed.Curl(line, open)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := said(t, s); got != want {
			t.Errorf("%s:\n%q, want\n%q", line, got, want)
		}
	}
	s, err := borrowed.Curl("curl -k -L --http2 -x p:3128 -m 3 --cacert ca.pem --resolve a:1:2 --unix-socket /s https://a:1/", open)
	if want := "map[cacert:ca.pem http:2 insecure:true location:true proxy:p:3128 resolve:a:1:2 timeout:3s unix:/s]"; err != nil || fmt.Sprint(s.Flags) != want {
		t.Errorf("%v, %v", s, err)
	}
	for line, want := range map[string]string{
		"curl":                         "curl without a URL",
		"curl -F a=b http://h":         "-F of curl cannot be honoured",
		"curl --retri 3 http://h":      "--retri of curl cannot",
		"curl http://h -H":             "-H: its value is missing",
		"curl 'http://h":               "a quote is not closed",
		"curl http://h | jq .":         `"|": only curl itself is read`,
		"curl http://h && curl http:/": "only curl itself",
		"curl http://h/a http://h/b":   "several URLs",
		"curl -d @no http://h":         "no such file",
		"curl -b jar.txt http://h":     "a file of cookies",
	} {
		if s, err := borrowed.Curl(line, open); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", line, s, err, want)
		}
	}
}

// TestFiles: what each kind of file is read as, and what is left out of it.
func TestFiles(t *testing.T) {
	for _, c := range []struct{ name, text, want, left string }{
		{"a.txt", "curl http://h/a\n\ncurl http://h/b -d x \\\n -H 'A: b'\ncurl http://h/a\n",
			"GET http://h/a ×2\nPOST http://h/b [A: b] [Content-Type: application/x-www-form-urlencoded] {x}", ""},
		{"a.har", `{"log": {"version": "1.2", "entries": [
			{"request": {"method": "GET", "url": "https://h/a", "headers": [{"name": ":authority", "value": "h"}, {"name": "Host", "value": "h"}, {"name": "Accept", "value": "*/*"}]}},
			{"request": {"method": "POST", "url": "https://h/b", "headers": [], "postData": {"text": "aGk=", "encoding": "base64"}}},
			{"request": {"method": "GET", "url": "https://other/c", "headers": []}},
			{"request": {"method": "GET", "url": "data:image/png", "headers": []}}]}}`,
			"GET https://h/a [Accept: */*]\nPOST https://h/b {hi}", "left out: 1 that are not http:// or https://; a run has one host, https://h; left out: 1 to https://other"},
	} {
		s, err := borrowed.Read([]byte(c.text), c.name, open)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := said(t, s); got != c.want || strings.Join(s.Left, "; ") != c.left {
			t.Errorf("%s:\n%q, want\n%q\nleft out %q, want %q", c.name, got, c.want, strings.Join(s.Left, "; "), c.left)
		}
	}
	for name, text := range map[string]string{"targets": "GET http://h/\n", "t.json": `{"method": "GET", "url": "http://h/"}`, "empty": "", "bad": `{"log`} {
		if s, err := borrowed.Read([]byte(text), name, open); s != nil || err != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	for text, want := range map[string]string{
		`{"log": {"entries": []}}`:            "no request in it",
		`{"log": []}`:                         "not a HAR",
		"curl http://h/\ncurl -F x http://h/": "-F of curl",
		"curl http://h/\nwget http://h/":      "is not a curl command",
	} {
		s, err := borrowed.Read([]byte(text), "x.har", open)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "x.har: ") {
			t.Errorf("%s: %+v, %v, want %q", text, s, err, want)
		}
	}
}

// FuzzRead: no input makes it panic, hang, or hand over what cannot be read.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"curl -d '$a' $'b\\n' \"c\" http://h", `{"log":{"entries":[{"request":{"url":"http://h"}}]}}`, `1 - - [x] "GET /a HTTP/1.1" 200`, `{"request":{"method":"GET","uri":"/a"}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func() (*borrowed.Set, error){
			func() (*borrowed.Set, error) { return borrowed.Read([]byte(text), "f", open) },
			func() (*borrowed.Set, error) { return borrowed.Log([]byte(text), "a.log", "http://h", false) },
		} {
			if s, err := read(); err == nil && s != nil {
				_, err = spec.ReadTargets(bytes.NewReader(s.Lines()), "t", "")
				_ = err // its own checks
			}
		}
	})
}

// TestAccessLogs: each request as often as the log has it, and what is left out.
func TestAccessLogs(t *testing.T) {
	const nginx = `10.0.0.1 - - [28/Nov/2026:05:00:00 +0000] "GET /a?x=1 HTTP/1.1" 200 12 "-" "curl/8"
10.0.0.1 - bob [28/Nov/2026:05:00:00 +0000] "GET /b HTTP/2.0" 200 12 "http://h/" "Mozilla \"quoted\""
10.0.0.1 - - [28/Nov/2026:05:00:01 +0000] "GET /a?x=1 HTTP/1.1" 304 0 "-" "-"
10.0.0.1 - - [28/Nov/2026:05:00:01 +0000] "POST /c HTTP/1.1" 201 0 "-" "-"
10.0.0.1 - - [28/Nov/2026:05:00:01 +0000] "\x16\x03\x01" 400 0 "-" "-"
10.0.0.1 - - [28/Nov/2026:05:00:01 +0000] "HEAD /b HTTP/1.0" 200 0 "-" "-"
`
	const caddy = `{"level":"info","ts":1.5,"request":{"method":"GET","host":"h","uri":"/a","headers":{"A":["b"]}},"status":200}
{"level":"info","request":{"method":"GET","uri":"/a"}}
{"level":"error","msg":"something else"}
`
	for name, c := range map[string]struct{ text, want, left string }{
		"nginx": {nginx, "GET /a?x=1 2, GET /b 1, HEAD /b 1", "left out: 1 line without a request line; left out: 1 line whose bodies"},
		"caddy": {caddy, "GET /a 2", "left out: 1 line without"},
	} {
		s, err := borrowed.Log([]byte(c.text), name, "http://h:1", false)
		if err != nil || s == nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, r := range s.Requests {
			got = append(got, fmt.Sprintf("%s %s %d", r.Method, strings.TrimPrefix(r.URL, "http://h:1"), r.Weight))
		}
		if text := strings.Join(got, ", "); text != c.want || !strings.HasPrefix(strings.Join(s.Left, "; "), c.left) {
			t.Errorf("%s: %s, %v", name, text, s.Left)
		}
		if targets, err := spec.ReadTargets(bytes.NewReader(s.Lines()), name, ""); err != nil || targets[0].Weight != 2 {
			t.Errorf("%s: %+v, %v", name, targets, err)
		}
	}
	for _, text := range []string{"", "GET http://h/a\n", "hello\nthere\n", `{"method":"GET","url":"http://h/"}`, `{"log":{"entries":[]}}`} {
		if s, err := borrowed.Log([]byte(text), "x", "", false); s != nil || err != nil {
			t.Errorf("%q is taken for a log: %+v, %v", text, s, err)
		}
	}
	if _, err := borrowed.Log([]byte(`1 - - [x] "POST /c HTTP/1.1" 201 0`), "posts.log", "http://h", false); err == nil || !strings.Contains(err.Error(), "no request in it that can be sent") {
		t.Errorf("only posts: %v", err)
	}
}

// TestLogTimes: the times of all formats, in their order; whole seconds are spread, what was sent
// before it was answered began then, and lines without a time are left out.
func TestLogTimes(t *testing.T) {
	line := func(at, path string) string { return "1 - - " + at + ` "GET ` + path + ` HTTP/1.1" 200 1` + "\n" }
	const second = time.Second
	for name, c := range map[string]struct {
		text  string
		order string
		times []time.Duration
		left  string
	}{
		"nginx": {line("[28/Nov/2026:05:00:00 +0000]", "/a") + line("[28/Nov/2026:06:00:01 +0100]", "/b") + line("[28/Nov/2026:05:00:01 +0000]", "/a") +
			line("-", "/a"), "/a /b /a", []time.Duration{0, second, second + second/2},
			"its times are in whole seconds: the requests of each second are spread evenly over it; left out: 1 line without a time"},
		"iso": {line("2026-11-28T05:00:01.250+00:00", "/b") + line("2026-11-28T05:00:00Z", "/a"), "/a /b", []time.Duration{0, 1250 * time.Millisecond}, ""},
		"haproxy": {line("[06/Feb/2009:12:14:14.655]", "/a") + line("[06/Feb/2009:12:14:14.755]", "/b"), "/a /b",
			[]time.Duration{0, 100 * time.Millisecond}, ""},
		"caddy": {`{"ts":1646861401.5,"duration":0.5,"request":{"method":"GET","uri":"/b"}}` + "\n" +
			`{"ts":1646861401.25,"duration":1,"request":{"method":"GET","uri":"/a"}}` + "\n" +
			`{"ts":"2022-03-09T21:30:02.5Z","duration":0,"request":{"method":"GET","uri":"/a"}}` + "\n",
			"/a /b /a", []time.Duration{0, 750 * time.Millisecond, 2250 * time.Millisecond}, ""},
	} {
		s, err := borrowed.Log([]byte(c.text), name, "", true)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var order []string
		for _, i := range s.Order {
			order = append(order, s.Requests[i].URL)
		}
		left := strings.Join(s.Left, "; ")
		if strings.Join(order, " ") != c.order || !slices.Equal(s.Times, c.times) || left != c.left {
			t.Errorf("%s: %v at %v, %q", name, order, s.Times, left)
		}
	}
}
