package proxy

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"
)

// secretHash is bcrypt's of "secret", of the least cost.
func secretHash(t *testing.T) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func basic(user, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + "\r\n"
}

// ask sends a request with field lines and a body, and returns the whole response.
func (l *link) ask(method, path, lines string, body ...string) (*http.Response, string) {
	l.t.Helper()
	l.say(method + " " + path + " HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n" + strings.Join(body, ""))
	return l.answer(method)
}

func TestRespond(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(page, []byte("<p>soon</p>"), 0o600); err != nil {
		t.Fatal(err)
	}
	engines(t, func(t *testing.T, engine string) {
		r := run(t, engine, `workers = 1
listen = ["127.0.0.1:0"]
[[locations]]
path = ["=/health"]
respond = { body = "ok\n" }
[[locations]]
path = ["=/none"]
respond = { status = 204 }
[[locations]]
path = ["/page"]
respond = { status = 503, file = "`+page+`" }
response_headers = { set = { Retry-After = "60" } }
[[locations]]
path = ["/json"]
respond = { body = "{}", type = "application/json" }
`)
		c := dial(t, r.addr)
		for _, w := range []struct {
			method, path string
			status       int
			kind, body   string
		}{
			{"GET", "/health", 200, "text/plain; charset=utf-8", "ok\n"},
			{"HEAD", "/health", 200, "text/plain; charset=utf-8", ""},
			{"POST", "/health", 200, "text/plain; charset=utf-8", "ok\n"},
			{"GET", "/none", 204, "", ""},
			{"GET", "/page", 503, "text/html; charset=utf-8", "<p>soon</p>"},
			{"GET", "/json", 200, "application/json", "{}"},
		} {
			lines := ""
			if w.method == "POST" {
				lines = "Content-Length: 0\r\n"
			}
			res, body := c.ask(w.method, w.path, lines)
			if res.StatusCode != w.status || body != w.body || res.Header.Get("Content-Type") != w.kind {
				t.Errorf("%s %s: %s %q %q", w.method, w.path, res.Status, res.Header.Get("Content-Type"), body)
			}
			if w.path == "/none" && res.Header.Get("Content-Length") != "" {
				t.Errorf("204 has a length: %v", res.Header)
			}
			if w.path == "/page" && res.Header.Get("Retry-After") != "60" {
				t.Errorf("%v", res.Header)
			}
		}
	})
}

func TestAllowAndDeny(t *testing.T) {
	o := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "in") })
	for name, w := range map[string]struct {
		access, from string
		status       int
	}{
		"everyone":                      {`{}`, "", 200},
		"allowed":                       {`{ allow = ["127.0.0.0/8"] }`, "", 200},
		"another is":                    {`{ allow = ["10.0.0.0/8"] }`, "", 403},
		"denied":                        {`{ deny = ["127.0.0.1"] }`, "", 403},
		"another is denied":             {`{ deny = ["10.0.0.0/8", "::1"] }`, "", 200},
		"allowed in what is denied":     {`{ deny = ["all"], allow = ["127.0.0.1"] }`, "", 200},
		"denied in what is allowed":     {`{ allow = ["127.0.0.0/8"], deny = ["127.0.0.1/32"] }`, "", 403},
		"both":                          {`{ allow = ["127.0.0.1"], deny = ["127.0.0.1"] }`, "", 403},
		"behind a trusted proxy":        {`{ allow = ["10.0.0.0/8"] }`, "10.1.2.3", 200},
		"another one behind it":         {`{ allow = ["10.0.0.0/8"] }`, "11.1.2.3", 403},
		"what the client itself claims": {`{ deny = ["10.0.0.0/8"] }`, "11.1.2.3, 10.1.2.3", 403},
	} {
		t.Run(name, func(t *testing.T) {
			text := to("http://"+o.addr, "access = "+w.access)
			lines := ""
			if w.from != "" {
				text, lines = "trust = [\"localhost\"]\n"+text, "X-Forwarded-For: "+w.from+"\r\n"
			}
			r := run(t, "epoll", text)
			if res, body := dial(t, r.addr).ask("GET", "/", lines); res.StatusCode != w.status {
				t.Errorf("%s %s", res.Status, body)
			}
		})
	}
}

func TestBasicAuth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("# staff\n\nbob:"+secretHash(t)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen atomic.Int32
	o := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		io.Copy(w, r.Body)
		fmt.Fprint(w, r.Header.Get("Authorization") != "")
	})
	engines(t, func(t *testing.T, engine string) {
		log := filepath.Join(t.TempDir(), "log")
		r := run(t, engine, "log = { access = \""+log+"\" }\n"+to("http://"+o.addr,
			`access = { basic_auth = { realm = "staff", users = { alice = "`+secretHash(t)+`" }, file = "`+file+`" } }`))
		c := dial(t, r.addr)
		for _, lines := range []string{"", "Authorization: Basic !\r\n", "Authorization: Bearer x\r\n", basic("alice", "wrong"), basic("bob", ""),
			basic("carol", "secret"), basic("", "secret")} {
			before := seen.Load()
			res, body := c.ask("GET", "/", lines)
			if res.StatusCode != 401 || res.Header.Get("Www-Authenticate") != `Basic realm="staff", charset="UTF-8"` || seen.Load() != before {
				t.Errorf("%q: %s %v %.80q", lines, res.Status, res.Header, body)
			}
		}
		for _, lines := range []string{basic("alice", "secret"), basic("alice", "secret"), basic("bob", "secret")} {
			if res, body := c.ask("GET", "/", lines); res.StatusCode != 200 || body != "true" {
				t.Errorf("%q: %s %q", lines, res.Status, body)
			}
		}
		// The body arrives while the password is checked; the next request is already there.
		c.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n" + basic("bob", "secret") + "\r\nbodyGET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if res, body := c.answer("POST"); res.StatusCode != 200 || body != "bodytrue" {
			t.Errorf("POST: %s %q", res.Status, body)
		}
		if res, _ := c.answer("GET"); res.StatusCode != 401 {
			t.Errorf("the next one: %s", res.Status)
		}
		r.stop()
		text, err := os.ReadFile(log)
		if n := strings.Count(string(text), " - alice ["); err != nil || n != 2 {
			t.Errorf("%v, alice stands %d times in %s", err, n, text)
		}
		if strings.Contains(string(text), "secret") {
			t.Errorf("a password is in the log: %s", text)
		}
	})
}

// TestPasswordAndNoClient: a client that leaves while its password is checked takes nothing along.
func TestPasswordAndNoClient(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), 10)
	if err != nil {
		t.Fatal(err)
	}
	o := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "in") })
	r := run(t, "uring", to("http://"+o.addr, `access = { basic_auth = { users = { alice = "`+string(hash)+`" } } }`))
	for i := range 8 {
		c := dial(t, r.addr)
		c.say("GET / HTTP/1.1\r\nHost: a\r\n" + basic("alice", fmt.Sprint(i)) + "\r\n")
		if err := c.Conn.(*net.TCPConn).SetLinger(0); err != nil { // a reset: after a mere end it might still read
			t.Fatal(err)
		}
		c.Close()
	}
	if res, _ := dial(t, r.addr).ask("GET", "/", basic("alice", "secret")); res.StatusCode != 200 {
		t.Errorf("%s", res.Status)
	}
	until(t, "no client is left", func() bool {
		s, err := r.Snapshot()
		return err == nil && s.Clients <= 1
	})
}

func TestForwardAuth(t *testing.T) {
	needs.Time(t)
	auth := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Cookie") {
		case "session=good":
			w.Header().Set("Remote-User", "alice")
			w.Header().Add("Remote-Groups", "a")
			w.Header().Add("Remote-Groups", "b")
			w.Header().Set("Remote-Secret", "not copied")
		case "session=slow":
			<-r.Context().Done()
		case "session=echo":
			w.WriteHeader(418)
			for _, n := range []string{"X-Forwarded-Method", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Uri", "X-Forwarded-For",
				"X-Original-Url", "X-Original-Method", "Content-Length", "Accept"} {
				fmt.Fprintf(w, "%s %s=%s\n", r.Method, n, strings.Join(r.Header.Values(n), "|"))
			}
		default:
			w.Header().Set("Location", "https://login.example/?rd=x")
			w.Header().Add("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
			w.WriteHeader(302)
			io.WriteString(w, "log in")
		}
	})
	var seen atomic.Int32
	o := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v %v %q %s", r.Header.Get("Remote-User"), r.Header.Values("Remote-Groups"), r.Header.Values("Remote-Email"),
			r.Header.Get("Remote-Secret"), body)
	})
	engines(t, func(t *testing.T, engine string) {
		r := run(t, engine, to("http://"+o.addr, `access = { forward_auth = { uri = "http://`+auth.addr+
			`/api/authz/forward-auth", copy_headers = ["Remote-User", "Remote-Groups", "Remote-Email"], timeout = "300ms" } }`))
		c := dial(t, r.addr)
		// What a client says of itself does not count.
		res, body := c.ask("POST", "/x", "Cookie: session=good\r\nRemote-Email: forged\r\nRemote_User: forged\r\nContent-Length: 4\r\n", "body")
		if want := `alice [a b] [] "" body`; res.StatusCode != 200 || body != want {
			t.Errorf("%s %q, want %q", res.Status, body, want)
		}
		before := seen.Load()
		res, body = c.ask("GET", "/", "")
		if res.StatusCode != 302 || body != "log in" || res.Header.Get("Location") != "https://login.example/?rd=x" ||
			len(res.Header.Values("Set-Cookie")) != 2 || seen.Load() != before {
			t.Errorf("%s %v %q", res.Status, res.Header, body)
		}
		if res, body := c.ask("HEAD", "/", ""); res.StatusCode != 302 || body != "" {
			t.Errorf("HEAD: %s %q", res.Status, body)
		}
		_, body = c.ask("PUT", "/a%20b?c=d", "Cookie: session=echo\r\nAccept: text/html\r\nX-Forwarded-Uri: /forged\r\nX-Original-URL: /forged\r\n"+
			"Content-Length: 0\r\n")
		want := "GET X-Forwarded-Method=PUT\nGET X-Forwarded-Proto=http\nGET X-Forwarded-Host=a\nGET X-Forwarded-Uri=/a%20b?c=d\n" +
			"GET X-Forwarded-For=127.0.0.1\nGET X-Original-Url=http://a/a%20b?c=d\nGET X-Original-Method=PUT\nGET Content-Length=\nGET Accept=text/html\n"
		if body != want {
			t.Errorf("asked %s\nwant %s", body, want)
		}
		if res, _ := c.ask("GET", "/", "Cookie: session=slow\r\n"); res.StatusCode != 504 {
			t.Errorf("slow: %s", res.Status)
		}
		if seen.Load() != before {
			t.Error("a request came in that may not")
		}
	})
	t.Run("gone", func(t *testing.T) {
		r := run(t, "epoll", to("http://"+o.addr, `access = { forward_auth = { uri = "http://`+porttest.Refused(t)+`/" } }`))
		before := seen.Load()
		if res, _ := dial(t, r.addr).get("/"); res.StatusCode != 502 || seen.Load() != before {
			t.Errorf("%s", res.Status)
		}
	})
}

func TestCORS(t *testing.T) {
	o := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "http://the-destination's")
		fmt.Fprint(w, r.Method)
	})
	r := run(t, "epoll", to("http://"+o.addr, `access = { cors = { origins = ["https://app.example"], headers = ["X-Token"], `+
		`expose = ["X-Total"], credentials = true, max_age = "1m" }, basic_auth = { users = { a = "`+secretHash(t)+`" } } }`))
	c := dial(t, r.addr)
	pre := "Origin: https://app.example\r\nAccess-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-token\r\n"
	res, _ := c.ask("OPTIONS", "/", pre) // without the password
	h := res.Header
	if res.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example" || h.Get("Access-Control-Allow-Headers") != "X-Token" ||
		h.Get("Access-Control-Allow-Credentials") != "true" || h.Get("Access-Control-Max-Age") != "60" || h.Get("Vary") != "Origin" ||
		!strings.Contains(h.Get("Access-Control-Allow-Methods"), "PUT") {
		t.Errorf("preflight: %s %v", res.Status, h)
	}
	res, _ = c.ask("OPTIONS", "/", strings.Replace(pre, "app", "evil", 1))
	if res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin: %s %v", res.Status, res.Header)
	}
	res, body := c.ask("GET", "/", "Origin: https://APP.example\r\n"+basic("a", "secret"))
	if res.StatusCode != 200 || body != "GET" || strings.Join(res.Header.Values("Access-Control-Allow-Origin"), "|") != "https://APP.example" ||
		res.Header.Get("Access-Control-Expose-Headers") != "X-Total" {
		t.Errorf("a request: %s %v", res.Status, res.Header)
	}
	res, _ = c.ask("GET", "/", "Origin: https://evil.example\r\n"+basic("a", "secret"))
	if res.StatusCode != 200 || len(res.Header.Values("Access-Control-Allow-Origin")) > 0 || res.Header.Get("Vary") != "Origin" {
		t.Errorf("a request of another origin: %s %v", res.Status, res.Header)
	}
	// A page may read that it lacks a password.
	res, _ = c.ask("GET", "/", "Origin: https://app.example\r\n")
	if res.StatusCode != 401 || res.Header.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("without a password: %s %v", res.Status, res.Header)
	}

	all := run(t, "epoll", to("http://"+o.addr, `access = { cors = { origins = ["*"] } }`))
	c = dial(t, all.addr)
	if res, _ := c.ask("OPTIONS", "/", pre); res.Header.Get("Access-Control-Allow-Origin") != "*" ||
		res.Header.Get("Access-Control-Allow-Headers") != "x-token" || res.Header.Get("Vary") != "" {
		t.Errorf("any origin: %v", res.Header)
	}
	if res, body := c.ask("OPTIONS", "/", ""); res.StatusCode != 200 || body != "OPTIONS" {
		t.Errorf("no preflight: %s %q", res.Status, body)
	}
}

func TestSticky(t *testing.T) {
	var list [3]*origin
	var down [3]atomic.Bool
	text := "workers = 1\nlisten = [\"127.0.0.1:0\"]\n[[locations]]\nbalance = \"sticky\"\nkey = \"cookie:at\"\nretry = { budget = 10.0 }\n"
	for i := range list {
		list[i] = serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
			if down[i].Load() {
				c, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					c.Close()
				}
				return
			}
			fmt.Fprint(w, i)
		})
		text += "[[locations.destinations]]\nuri = \"http://" + list[i].addr + "\"\neject = { failures = 1, for = \"1m\" }\n"
	}
	r := run(t, "uring", text)
	c := dial(t, r.addr)
	seen := map[string]string{}
	for range 6 {
		res, body := c.get("/")
		if len(res.Cookies()) != 1 {
			t.Fatalf("%v", res.Header)
		}
		one := res.Cookies()[0]
		if was, known := seen[body]; known && was != one.Value || one.Name != "at" || !one.HttpOnly || one.Path != "/" || one.Secure {
			t.Errorf("%s: %v after %s", body, one, was)
		}
		seen[body] = one.Value
	}
	if len(seen) != 3 {
		t.Fatalf("of three, %v answered", seen)
	}
	for at, value := range seen {
		for range 5 {
			res, body := c.ask("GET", "/", "Cookie: x=y; at="+value+"; z=1\r\n")
			if body != at || len(res.Cookies()) > 0 {
				t.Errorf("%s went to %s, %v", at, body, res.Cookies())
			}
		}
	}
	down[0].Store(true)
	for range 3 {
		res, body := c.ask("GET", "/", "Cookie: at="+seen["0"]+"\r\n")
		if res.StatusCode != 200 || body == "0" || len(res.Cookies()) != 1 || res.Cookies()[0].Value != seen[body] {
			t.Errorf("after it failed: %s %q %v", res.Status, body, res.Cookies())
		}
	}
	if res, _ := c.ask("GET", "/", "Cookie: at=!\r\n"); res.StatusCode != 200 || len(res.Cookies()) != 1 {
		t.Errorf("another program's: %s", res.Status)
	}
	behind := run(t, "uring", "trust = [\"localhost\"]\n"+text)
	if res, _ := dial(t, behind.addr).ask("GET", "/", "X-Forwarded-Proto: https\r\n"); len(res.Cookies()) != 1 || !res.Cookies()[0].Secure {
		t.Errorf("over https: %v", res.Header)
	}
}

func TestMissingNext(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.css"), []byte("a{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "app ", r.Method, " ", r.URL.Path) })
	files := "[[locations.destinations]]\nuri = \"files://" + dir + "?missing=next\"\n"
	begin := "workers = 1\nlisten = [\"127.0.0.1:0\"]\n[[locations]]\n"
	for name, text := range map[string]string{
		"destination": begin + files + "[[locations.destinations]]\nuri = \"http://" + o.addr + "\"\n",
		"fallback":    begin + "fallback = { uri = \"http://" + o.addr + "\" }\n" + files,
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, "epoll", text)
			c := dial(t, r.addr)
			for range 3 {
				if body := c.status("/a.css", 200); body != "a{}" {
					t.Errorf("the file: %q", body)
				}
				if body := c.status("/a", 200); body != "app GET /a" {
					t.Errorf("no file: %q", body)
				}
			}
			if _, body := c.ask("POST", "/a.css", "Content-Length: 0\r\n"); body != "app POST /a.css" {
				t.Errorf("POST: %q", body)
			}
			c.say("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
			if _, body := c.answer("GET"); body != "app GET /ws" {
				t.Errorf("upgrade: %q", body)
			}
		})
	}
	t.Run("no application", func(t *testing.T) {
		r := run(t, "epoll", begin+files+"[[locations.destinations]]\nuri = \"http://"+porttest.Refused(t)+"\"\n")
		c := dial(t, r.addr)
		c.status("/a.css", 200)
		c.status("/a", 502)
	})
}

func TestErrorPages(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"404.html": "<h1>{status} {reason}</h1>{detail}", "5xx.json": `{"error":{status},"why":"{detail}"}`, "www.html": "www"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t, "epoll", `workers = 1
listen = ["127.0.0.1:0"]
error_pages = { "404" = "`+dir+`/404.html", "5xx" = "`+dir+`/5xx.json" }
[[regions]]
id = "www"
error_pages = { "404" = "`+dir+`/www.html" }
[[regions.locations]]
paths = ["/www"]
destinations = [{ uri = "files://`+dir+`" }]
[[regions]]
[[regions.locations]]
paths = ["/app"]
destinations = [{ uri = "unix:`+dir+`/none" }]
`)
	c := dial(t, r.addr)
	for path, want := range map[string]struct {
		status     int
		kind, body string
	}{
		"/<x>":   {404, "text/html; charset=utf-8", "<h1>404 Not Found</h1>no location matches this request"},
		"/www/a": {404, "text/html; charset=utf-8", "www"},
		"/app":   {502, "application/json", `{"error":502,"why":"connect: no such file or directory"}`},
	} {
		res, body := c.get(path)
		if res.StatusCode != want.status || body != want.body || res.Header.Get("Content-Type") != want.kind {
			t.Errorf("%s: %s %s %q", path, res.Status, res.Header.Get("Content-Type"), body)
		}
	}
}

// TestErrorPageText: a cause cannot end what it stands in.
func TestErrorPageText(t *testing.T) {
	p := errorPages{"404": {"<i>{detail}</i>", "text/html; charset=utf-8"}, "5xx": {`{"why":"{detail}"}`, "application/json"}}
	if text, _ := p.page(404, `<"&`); string(text) != "<i>&lt;&quot;&amp;</i>" {
		t.Errorf("%s", text)
	}
	if text, _ := p.page(508, `location "a"`); string(text) != `{"why":"location \"a\""}` {
		t.Errorf("%s", text)
	}
}

func TestRequestID(t *testing.T) {
	o := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", strings.Join(r.Header.Values("X-Request-Id"), "|"), strings.Join(r.Header.Values("Traceparent"), "|"))
	})
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, trusted := range []bool{false, true} {
		log := filepath.Join(t.TempDir(), "log")
		text := "log = { access = \"" + log + "\", format = \"json\", request_id = \"X-Request-Id\", traceparent = true }\n" + to("http://"+o.addr)
		if trusted {
			text = "trust = [\"localhost\"]\n" + text
		}
		r := run(t, "epoll", text)
		c := dial(t, r.addr)
		res, body := c.get("/")
		id, trace, _ := strings.Cut(body, " ")
		if len(id) != 32 || res.Header.Get("X-Request-Id") != id || len(trace) != 55 || !validTrace([]byte(trace)) {
			t.Errorf("%q %v", body, res.Header)
		}
		if _, again := c.get("/"); again == body {
			t.Errorf("%s twice", again)
		}
		res, body = c.ask("GET", "/", "X-Request-ID: own\r\nTraceparent: "+parent+"\r\n")
		id, trace, _ = strings.Cut(body, " ")
		if (id == "own") != trusted || trace != parent || res.Header.Get("X-Request-Id") != id {
			t.Errorf("trusted %t: %q %v", trusted, body, res.Header)
		}
		if _, body = c.ask("GET", "/", "Traceparent: 00-0-0-0\r\n"); strings.Contains(body, "00-0-0") || len(body) != 32+1+55 {
			t.Errorf("an invalid one: %q", body)
		}
		r.stop()
		if lines, err := os.ReadFile(log); err != nil || !strings.Contains(string(lines), `"request_id":"`+id+`","trace_id":"4bf92f`) {
			t.Errorf("%v %s", err, lines)
		}
	}
}

// TestIPv6Clients: a limit counts a customer's network as one client.
func TestIPv6Clients(t *testing.T) {
	o := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "in") })
	r := run(t, "epoll", "trust = [\"localhost\"]\n"+to("http://"+o.addr, `rate = { requests = 1, per = "1h" }`))
	c := dial(t, r.addr)
	for _, w := range []struct {
		from string
		want int
	}{{"2001:db8:1:2::1", 200}, {"2001:db8:1:2:ffff::9", 429}, {"2001:db8:1:3::1", 200}, {"10.0.0.1", 200}, {"10.0.0.2", 200}, {"10.0.0.1", 429}} {
		if res, _ := c.ask("GET", "/", "X-Forwarded-For: "+w.from+"\r\n"); res.StatusCode != w.want {
			t.Errorf("%s: %s, want %d", w.from, res.Status, w.want)
		}
	}
}

// TestForwardAuthOfATunnel: the service is asked before a WebSocket opens.
func TestForwardAuthOfATunnel(t *testing.T) {
	auth := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" || r.Header.Get("Cookie") == "" {
			w.WriteHeader(401)
		}
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := bufio.NewReader(c)
		if _, err := http.ReadRequest(b); err == nil {
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
			io.CopyN(c, b, 4)
		}
	}()
	r := run(t, "uring", to("http://"+ln.Addr().String(), `access = { forward_auth = { uri = "http://`+auth.addr+`/" } }`))
	c := dial(t, r.addr)
	up := "Connection: upgrade\r\nUpgrade: x\r\n"
	if res, _ := c.ask("GET", "/", up); res.StatusCode != 401 {
		t.Errorf("without a cookie: %s", res.Status)
	}
	c.say("GET / HTTP/1.1\r\nHost: a\r\nCookie: a=b\r\n" + up + "\r\nping")
	if res, err := http.ReadResponse(c.r, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("%v %v", res, err)
	}
	var b [4]byte
	if _, err := io.ReadFull(c.r, b[:]); err != nil || string(b[:]) != "ping" {
		t.Errorf("%q %v", b, err)
	}
}

// TestCookieFields: a cookie is found in whichever Cookie field has it (RFC 9112 knows one, RFC 9113 section
// 8.2.3 splits them, and what joins them again may not).
func TestCookieFields(t *testing.T) {
	var list [3]*origin
	text := "[[locations]]\nbalance = \"sticky\"\nkey = \"cookie:at\"\n"
	for i := range list {
		list[i] = serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) })
		text += "[[locations.destinations]]\nuri = \"http://" + list[i].addr + "\"\n"
	}
	c := dial(t, run(t, "uring", "workers = 1\nlisten = [\"127.0.0.1:0\"]\n"+text).addr)
	res, body := c.get("/")
	value := res.Cookies()[0].Value
	for _, lines := range []string{
		"Cookie: x=y\r\nCookie: at=" + value + "\r\n", "cookie: a=b\r\nX: y\r\ncookie: z=at; at=" + value + "\r\n",
		"Cookie: at=another's\r\nCookie: at=" + value + "\r\n", "Cookie: at=\"\"; at=" + value + "\r\n",
	} {
		for range 3 {
			if res, to := c.ask("GET", "/", lines); to != body || len(res.Cookies()) > 0 {
				t.Errorf("%q went to %s and not to %s, %v", lines, to, body, res.Cookies())
			}
		}
	}
}

// TestForwardAuthOddities: what is no final status cannot let a request in, nor be passed on; the fields that
// the service may set are not the client's, by neither name.
func TestForwardAuthOddities(t *testing.T) {
	keepsNothing(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	status := make(chan string, 1)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 "+<-status+"\r\nConnection: close\r\nUpgrade: websocket\r\nRemote-Groups: a\r\n\r\n")
			}
			c.Close()
		}
	}()
	o := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Values("Remote-Groups"), r.Header.Values("X-Groups"))
	})
	r := run(t, "uring", to("http://"+o.addr, `access = { forward_auth = { uri = "http://`+ln.Addr().String()+
		`/", copy_headers = ["Remote-Groups>X-Groups"] } }`))
	for said, want := range map[string]int{"101 Switching Protocols": 502, "000 None": 502, "999 Other": 502, "600 Other": 502, "403 No": 403, "204 Yes": 200} {
		status <- said
		res, body := dial(t, r.addr).ask("GET", "/", "Remote-Groups: forged\r\nX-Groups: forged\r\nremote_groups: forged\r\n")
		if res.StatusCode != want || want == 200 && body != "[] [a]" {
			t.Errorf("%s: %s %q, want %d", said, res.Status, body, want)
		}
	}
}

// TestPasswordFlood: an address has few passwords checked at a time, and another's is not kept waiting for
// them.
func TestPasswordFlood(t *testing.T) {
	needs.Unraced(t) // a check takes seconds there, and one that waits for five is given up
	needs.Time(t)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), 9) // 30 ms each: eight are checked well within passwordWithin
	if err != nil {
		t.Fatal(err)
	}
	o := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	r := run(t, "uring", to("http://"+o.addr, `access = { basic_auth = { users = { alice = "`+string(hash)+`" } } }`))
	const flood = 30
	var guesses []*link
	for i := range flood {
		c := dial(t, r.addr)
		c.say("GET / HTTP/1.1\r\nHost: a\r\n" + basic("alice", fmt.Sprint(i)) + "\r\n")
		guesses = append(guesses, c)
	}
	other, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l := &link{other, bufio.NewReader(other), t}
	if res, _ := l.ask("GET", "/", basic("alice", "secret")); res.StatusCode != 200 {
		t.Errorf("of another address: %s", res.Status)
	}
	statuses := map[int]int{}
	for _, c := range guesses {
		res, _ := c.answer("GET")
		statuses[res.StatusCode]++
	}
	if statuses[429] < flood/2 || statuses[401] == 0 || statuses[401]+statuses[429]+statuses[503] != flood {
		t.Errorf("of a flood: %v", statuses)
	}
	if res, _ := guesses[0].ask("GET", "/", basic("alice", "secret")); res.StatusCode != 200 {
		t.Errorf("of the flood's address, afterwards: %s", res.Status)
	}
}
