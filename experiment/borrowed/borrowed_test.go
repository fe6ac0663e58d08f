package borrowed_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/borrowed"
)

func open(name string) ([]byte, error) {
	if name == "no" {
		return nil, errors.New("no such file")
	}
	if name == "fields" {
		return []byte("X-A: 1\r\n\nAccept:\n"), nil
	}
	return []byte("of " + name + "\n"), nil
}

// said writes requests as one reads them.
func said(t *testing.T, s *borrowed.Set) string {
	t.Helper()
	list, err := s.Targets("t")
	if err != nil {
		return err.Error()
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
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), byCurl, "")
}

// byCurl is what curl says of itself in every request.
const byCurl = " [User-Agent: curl/8.14.1] [Accept: */*]"

// TestCurl: command lines as documentation and browsers write them.
func TestCurl(t *testing.T) {
	const form = " [Content-Type: application/x-www-form-urlencoded]"
	for line, want := range map[string]string{
		"curl http://h/x":                 "GET http://h/x",
		"curl -sSL -o /dev/null http://h": "GET http://h/",
		`curl 'http://h/a?b=1&c=2' -H 'Accept: text/html' -H 'Cookie: a=b; c=d' --compressed`:                                  "GET http://h/a?b=1&c=2 [User-Agent: curl/8.14.1] [Accept-Encoding: deflate, gzip, br, zstd] [Accept: text/html] [Cookie: a=b; c=d]",
		"curl -X PUT http://h -d a=1 -d b=2":                                                                                   "PUT http://h/" + form + " {a=1&b=2}",
		`curl --location --request POST 'http://h/v1' --header 'Content-Type: application/json' --data-raw '{"a": "it'\''s"}'`: `POST http://h/v1 [Content-Type: application/json] {{"a": "it's"}}`,
		`curl http://h --json '{"a":1}'`:                                                                                       `POST http://h/ [User-Agent: curl/8.14.1] [Content-Type: application/json] [Accept: application/json] {{"a":1}}`,
		"curl -u me:secret http://h":                                                                                           "GET http://h/ [Authorization: Basic bWU6c2VjcmV0]",
		"curl -G http://h/s?x=1 --data-urlencode 'q=a b&c'":                                                                    "GET http://h/s?x=1&q=a+b%26c",
		"curl -I http://h":    "HEAD http://h/",
		"curl -d @f http://h": "POST http://h/" + form + " {of f}",
		"curl --data-binary @f -H 'Content-Type: a/b' http://h": "POST http://h/ [Content-Type: a/b] {of f\n}",
		"curl http://h \\\n  -H 'A: b' \\\n  -A me # why":       "GET http://h/ [User-Agent: me] [Accept: */*] [A: b]",
		"curl $'http://h' --data-raw $'a\\nb'":                  "POST http://h/" + form + " {a\nb}",
		`curl "http://h/\$x" -H "A: \"q\""`:                     `GET http://h/$x [A: "q"]`,
		"curl -d @- http://h":                                   "POST http://h/" + form + " {of -}",
		// the escapes of $'…'
		`curl http://h -d $'a\u0021\x41\101\a\e\cA\?\q\U1F600\xe9'`: "POST http://h/" + form + " {a!AA\a\x1b\x01?\\q\U0001F600\xe9}",
		// fields that a file has, that are taken away, or empty
		"curl http://h -H @fields":                        "GET http://h/ [User-Agent: curl/8.14.1] [X-A: 1]",
		"curl http://h -H Accept: -H 'X-Empty;' -H Plain": "GET http://h/ [User-Agent: curl/8.14.1] [X-Empty: ]",
		"curl http://h -H 'user-agent:' -H 'X: y' -H 'Host: o' -H host:p -b a=1 -b b=2 -e 'r;auto'": "GET http://h/ [Host: o] [Accept: */*] [Referer: r] [Cookie: a=1;b=2] [X: y]",
		"curl http://h/ -H 'Transfer-Encoding: chunked' -d x":                                       "POST http://h/ [Transfer-Encoding: chunked]" + form + " {x}",
		// URLs
		"curl http://h/a/../b/./c/..":       "GET http://h/b/",
		"curl --path-as-is http://h/a/../b": "GET http://h/a/../b",
		"curl -g http://h/[1-3]{a,b}":       "",
		"curl -g 'http://h/[1-3]{a,b}'":     "GET http://h/[1-3]{a,b}",
		`curl 'http://[::1]/\[a\]'`:         "GET http://[::1]/[a]",
		"curl 'http://h/{{.user}}'":         "GET http://h/{{.user}}",
		"curl --url-query 'a=b c' --url-query +d=%20 --url-query e@f http://h/?x=1#y": "GET http://h/?x=1&a=b+c&d=%20&e=of+f%0A",
		// forms
		`curl http://h -F 'a=b;type=text/x; charset=u' -F 'c=@d/e.PNG' -F 'g=<i.txt' -F '"=";"' -H 'Content-Type: multipart/form-data'`: "POST http://h/ [Content-Type: multipart/form-data; boundary=------------------------c0f3a1d5b7e92468] " +
			"{BOUNDARYContent-Disposition: form-data; name=\"a\"\r\nContent-Type: text/x; charset=u\r\n\r\nb\r\n" +
			"BOUNDARYContent-Disposition: form-data; name=\"c\"; filename=\"e.PNG\"\r\nContent-Type: image/png\r\n\r\nof d/e.PNG\n\r\n" +
			"BOUNDARYContent-Disposition: form-data; name=\"g\"\r\n\r\nof i.txt\n\r\n" +
			"BOUNDARYContent-Disposition: form-data; name=\"%22\"\r\n\r\n;\r\n--------------------------c0f3a1d5b7e92468--\r\n}",
	} {
		s, err := borrowed.Curl(line, open)
		if want == "" && err != nil {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := strings.ReplaceAll(said(t, s), "--------------------------c0f3a1d5b7e92468\r\n", "BOUNDARY"); got != want {
			t.Errorf("%s:\n%q, want\n%q", line, got, want)
		}
	}
	s, err := borrowed.Curl("curl -k -L --http2 -x p:3128 -m 3 --cacert ca.pem --resolve a:1:2 --unix-socket /s https://a:1/", open)
	if want := "map[cacert:ca.pem http:2 insecure:true location:true proxy:p:3128 resolve:a:1:2 timeout:3s unix:/s]"; err != nil || fmt.Sprint(s.Flags) != want {
		t.Errorf("%v, %v", s, err)
	}
	s, err = borrowed.Curl("curl -L -d a http://h", open)
	if err != nil || s.Flags["location"] != "" || !strings.Contains(fmt.Sprint(s.Left), "a POST may not be sent twice") {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestCurlRefused: what would be another request than curl's is refused by its name.
func TestCurlRefused(t *testing.T) {
	for line, want := range map[string]string{
		"curl":                         "curl without a URL",
		"curl -T a http://h":           "-T of curl cannot be honoured",
		"curl --netrc http://h":        "--netrc of curl cannot be honoured",
		"curl --retri 3 http://h":      "curl's --retri is not known",
		"curl http://h -sH":            "-H: its value is missing",
		"curl 'http://h":               "a quote is not closed",
		"curl http://h | jq .":         `"|": only curl itself is read`,
		"curl http://h && curl http:/": "only curl itself",
		"curl -d @- http://h < f":      "only curl itself",
		"curl http://h/?a=1&b=2":       "only curl itself",
		"curl http://h/a http://h/b":   "2 URLs",
		"curl -d @no http://h":         "no such file",
		"curl -H @no http://h":         "no such file",
		"curl -b jar.txt http://h":     "a file of cookies",
		"curl -u me http://h":          "curl asks for the password",
		"curl http://h/x[1-3]":         "curl makes several URLs of \"[1-3]\"",
		"curl 'http://h/{a,b}'":        "curl makes several URLs of",
		"curl http://h/{a,b}":          "a shell makes several words",
		"curl -d $'a\\0' http://h":     "a zero byte",
		"curl -d $'\\ud83d' http://h":  "not a character",
		"curl -F x http://h":           "no =",
		"curl -F 'x=@a,b' http://h":    "several files",
		"curl -F 'x=(' http://h":       "parts within parts",
		"curl -F x=y -d z http://h":    "exclude each other",
		"curl --http2 http://h":        "curl asks for an upgrade",
		"curl -H 'Host:' http://h":     "a request has a Host",
		"curl http://h -H \"A: $B\"":   "variables and commands of the shell",
		"curl http://h -H \"A: `b`\"":  "variables and commands of the shell",
		"curl http://h/$B":             "variables and commands of the shell",
		"wget http://h":                `"wget" is not a curl command`,
		"http POST h a=b":              `"http" is not a curl command`,
		"curl.exe http://h":            `"curl.exe" is not a curl command`,
		"VAR=x curl http://h":          `"VAR=x" is not a curl command`,
		"curl ^\"http://h^\"":          "Windows' cmd.exe",
		"curl \"http://h\" ^\r\n -I":   "Windows' cmd.exe",
	} {
		if s, err := borrowed.Curl(line, open); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", line, s, err, want)
		}
	}
	s, err := borrowed.Curl("curl -H $'X: \\xff' http://h", open)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Targets("t"); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("a field that is not UTF-8: %v", err)
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
			{"request": {"method": "POST", "url": "https://h/c", "headers": [{"name": "Content-Type", "value": "application/x-www-form-urlencoded"}], "postData": {"params": [{"name": "a b", "value": "c&"}, {"name": "d", "value": ""}]}}},
			{"request": {"method": "POST", "url": "https://h/d", "headers": [{"name": "Content-Type", "value": "multipart/form-data; boundary=B"}], "postData": {"params": [{"name": "a", "value": "b"}, {"name": "f", "value": "x", "fileName": "g.txt", "contentType": "text/plain"}]}}},
			{"request": {"method": "POST", "url": "https://h/e", "headers": [], "postData": {"mimeType": "multipart/form-data; boundary=B", "params": [{"name": "f", "fileName": "g.txt"}]}}},
			{"request": {"method": "POST", "url": "https://h/f", "headers": [], "postData": {"mimeType": "text/xml", "params": [{"name": "a"}]}}},
			{"request": {"method": "POST", "url": "https://h/g", "headers": [], "bodySize": 3}},
			{"request": {"method": "GET", "url": "data:image/png", "headers": []}}]}}`,
			"GET https://h/a [Accept: */*]\nPOST https://h/b {hi}\nPOST https://h/c [Content-Type: application/x-www-form-urlencoded] {a+b=c%26&d=}\n" +
				"POST https://h/d [Content-Type: multipart/form-data; boundary=B] {--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n" +
				"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"g.txt\"\r\nContent-Type: text/plain\r\n\r\nx\r\n--B--\r\n}",
			"left out: 1 request to other than http:// or https://; left out: 3 requests without their body in the recording, or with a changed one; a run has one host, https://h; left out: 1 to https://other"},
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
		"curl http://h/\ncurl -T x http://h/": "-T of curl",
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
				_, err = s.Targets("t")
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
10.0.0.1 - - [28/Nov/2026:05:00:01 +0000] "GET /\x22\xC3\xA9\\\"é?a=\x20b|c#d\xZ HTTP/1.0" 200 0 "-" "-"
`
	const caddy = `{"level":"info","ts":1.5,"request":{"method":"GET","host":"h","uri":"/a","headers":{"A":["b"]}},"status":200}
{"level":"info","request":{"method":"GET","uri":"/a"}}
{"level":"error","msg":"something else"}
`
	for name, c := range map[string]struct{ text, want, left string }{
		"nginx": {nginx, "GET /a?x=1 2, GET /%22%C3%A9%5C%22%C3%A9?a=%20b|c%23dxZ 1, GET /b 1, HEAD /b 1", "left out: 1 line without a request line; left out: 1 line with a body, which a log does not have"},
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
		if targets, err := s.Targets(name); err != nil || targets[0].Weight != 2 {
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
