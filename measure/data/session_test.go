package data

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/http1"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/unit"
	"ceiling/measure/load"
)

const shopping = `steps:
  - request: POST /login
    body: '{"user": "{{.user}}"}'
    capture: {token: json $.data.token}
  - request: POST /orders
    header: ["Authorization: Bearer {{.token}}"]
    body: '{"n": {{seq}}}'
    think: 1ms-3ms
    capture: {order: 'header Location /orders/(.+)$'}
  - request: GET /orders/{{.order}}
    header: ["Authorization: Bearer {{.token}}"]
`

// shop lets those in who do the steps in order, with their own values, and counts.
type shop struct {
	sync.Mutex
	orders   map[string]string // by token; "": none yet
	users    map[string]int
	answers  map[string]int // by step and status
	breaks   int            // one of so many logins fails; 0: none
	requests int
}

func (s *shop) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	s.Lock()
	defer s.Unlock()
	s.requests++
	token := strings.TrimPrefix(in.Header.Get("Authorization"), "Bearer ")
	order, known := s.orders[token]
	status, body := http.StatusForbidden, `{}`
	step, _, _ := strings.Cut(in.URL.Path[1:], "/")
	switch cookie, _ := in.Cookie("sid"); {
	case in.URL.Path == "/login":
		var who struct{ User string }
		if json.NewDecoder(in.Body).Decode(&who) != nil || in.Header.Get("Cookie") != "" {
			break
		}
		if s.breaks > 0 && s.requests%s.breaks == 0 {
			status = http.StatusServiceUnavailable
			break
		}
		token = fmt.Sprintf("%s %d", who.User, s.requests)
		s.users[who.User]++
		s.orders[token] = ""
		http.SetCookie(out, &http.Cookie{Name: "sid", Value: strings.ReplaceAll(token, " ", "-"), Path: "/", HttpOnly: true})
		status, body = http.StatusOK, `{"data":{"token":"`+token+`"}}`
	case !known || cookie == nil || cookie.Value != strings.ReplaceAll(token, " ", "-"):
	case in.URL.Path == "/orders" && order == "":
		s.orders[token] = strings.ReplaceAll(token, " ", "_")
		out.Header().Set("Location", "/orders/"+s.orders[token])
		status = http.StatusCreated
	case in.URL.Path == "/orders/"+order && order != "":
		status = http.StatusOK
	}
	s.answers[fmt.Sprintf("%s %s %d", in.Method, step, status)]++
	out.WriteHeader(status)
	_, _ = fmt.Fprint(out, body)
}

func session(t *testing.T, text string) (*spec.Session, []load.Request) {
	t.Helper()
	s, err := spec.ReadSession(file(t, "session.yaml", text))
	if err != nil {
		t.Fatal(err)
	}
	targets, err := s.Targets("http://shop")
	if err != nil {
		t.Fatal(err)
	}
	var mix []load.Request
	for _, target := range targets {
		_, path, _ := spec.SplitURL(target.URL)
		var fields []http1.Field
		for _, f := range target.Header {
			fields = append(fields, http1.Field{Name: f.Name, Value: f.Value})
		}
		b, err := http1.AppendRequest(nil, target.Method, path, "shop", fields, target.Body)
		if err != nil {
			t.Fatal(err)
		}
		mix = append(mix, load.Request{Bytes: b, Weight: 1})
	}
	return s, mix
}

type silent struct{}

func (silent) Connected(int, int, time.Time)  {}
func (silent) Window(bool, time.Time)         {}
func (silent) Interval(_ *load.Tally, _ bool) {}

// Users do their steps in order, each with its own values, cookies and row; what each step counts is
// what the server counted of it, in closed and open loops. A login that fails begins again.
func TestSessions(t *testing.T) {
	for name, change := range map[string]func(*load.Config, *shop){
		"closed":      func(*load.Config, *shop) {},
		"threads":     func(c *load.Config, _ *shop) { c.Threads = 2 },
		"pipelined":   func(c *load.Config, _ *shop) { c.Pipelining = 3 },
		"some fail":   func(_ *load.Config, s *shop) { s.breaks = 7 },
		"connections": func(c *load.Config, _ *shop) { c.NewConnections = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shop{orders: map[string]string{}, users: map[string]int{}, answers: map[string]int{}}
			feed, err := Open(file(t, "users.csv", "user\nann\nbob\ncarl\n"), nil)
			if err != nil {
				t.Fatal(err)
			}
			r := against(t, shopping, feed, s.ServeHTTP, func(c *load.Config) { c.Requests = 900; change(c, s) })
			s.Lock()
			defer s.Unlock()
			counted := map[string]int{}
			for i, step := range []string{"POST login", "POST orders", "GET orders"} {
				for status, n := range r.Total.ByTarget[i].Statuses {
					counted[fmt.Sprintf("%s %d", step, status)] += int(n)
				}
			}
			if fmt.Sprint(counted) != fmt.Sprint(s.answers) || r.Total.Completed != 900 || r.Total.Failed != 0 {
				t.Errorf("counted %v, the server %v; %d completed, %v", counted, s.answers, r.Total.Completed, r.Total.Faults)
			}
			for answer, n := range s.answers {
				if strings.HasSuffix(answer, "403") {
					t.Errorf("%d times %s", n, answer)
				}
			}
			if len(s.users) != 3 || s.answers["GET orders 200"] < 200 || s.breaks > 0 && s.answers["POST login 503"] == 0 {
				t.Errorf("users %v, %v", s.users, s.answers)
			}
		})
	}
}

func TestBadSessions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"steps: []":                           "has steps",
		"":                                    "it is empty",
		"steps: [{request: login}]":           "write the method and the path",
		"steps: [{request: GET /, thnk: 1s}]": `unknown field "thnk"`,
		"steps: [{request: GET /, think: 2s-1s}]":                                    "the shorter time is the first",
		"steps: [{request: GET /, think: soon}]":                                     "soon",
		"steps: [{request: GET /, capture: {a b: json $.a}}]":                        "a name has letters",
		"steps: [{request: GET /, capture: {a: $.a}}]":                               "a value is taken from",
		"steps: [{request: GET /, body: '@none.json'}]":                              "none.json",
		"steps: [{request: GET /, header: [broken]}]":                                "step 1: header",
		"steps: [{request: 'GET /{{.a}}', capture: {a: json $.a}}]":                  "{{.a}}: neither an earlier step captures it",
		"steps: [{request: GET /, capture: {user: json $.a}}]":                       "has a column of that name",
		"steps: [{request: GET /, capture: {a: json $.a}}, {request: 'GET /{{b}}'}]": "{{b}}",
	} {
		path := file(t, "s.yaml", text)
		s, err := spec.ReadSession(path)
		if err == nil {
			_, err = s.Targets("http://shop")
		}
		if err == nil {
			var feed *Feed
			if feed, err = Open(file(t, "users.csv", "user\nann\n"), nil); err != nil {
				t.Fatal(err)
			}
			_, mix := session(t, text)
			_, err = Sessions(s, mix, feed, 1, 1)
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A value that no response ever had is a mistake in the file, and is said with the step; one that a
// later response lacks begins the session again.
func TestMissingCapture(t *testing.T) {
	t.Parallel()
	s, mix := session(t, "steps: [{request: GET /a, capture: {x: json $.x}}, {request: 'GET /{{.x}}'}]")
	c, err := Sessions(s, mix, nil, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(body string) []load.Answer {
		return []load.Answer{{Bytes: []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))}}
	}
	next := func(from load.Source, seen []load.Answer) (string, error) {
		list, err := from.Next(seen, 1)
		if err != nil {
			return "", err
		}
		line, _, _ := strings.Cut(string(list[0].Bytes), " HTTP")
		return line, nil
	}
	never, _ := c.New(0)
	if _, err := next(never, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := next(never, answer(`{"y":1}`)); err == nil || !strings.Contains(err.Error(), "step 1 (GET /a): capture x: the response of status 200 has no json $.x") {
		t.Errorf("%v", err)
	}
	u, _ := c.New(1)
	got := ""
	for _, seen := range [][]load.Answer{nil, answer(`{"x":"1 2"}`), answer(""), answer(`{"y":1}`), {{}}, answer(`{"x":3}`)} {
		line, err := next(u, seen)
		if err != nil {
			t.Fatal(err)
		}
		got += line + ", "
	}
	if want := "GET /a, GET /1%202, GET /a, GET /a, GET /a, GET /3, "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestCookies: a user's cookies go where RFC 6265 sends them, and end when it ends them.
func TestCookies(t *testing.T) {
	t.Parallel()
	const gone = "Expires=Thu, 01 Jan 1970 00:00:00 GMT"
	for name, c := range map[string]struct{ from, set, to, want string }{
		"two":              {"http://shop/", "a=1; Path=/\r\nset-cookie: b=x=y", "http://shop/", "a=1; b=x=y"},
		"again":            {"http://shop/", "a=1\r\nSet-Cookie: b=3\r\nSet-Cookie: a=2; HttpOnly\r\nSet-Cookie: nonsense\r\nSet-Cookie: =v", "http://shop/", "a=2; b=3"},
		"Max-Age=0":        {"http://shop/", "a=1\r\nSet-Cookie: a=; Max-Age=0", "http://shop/", ""},
		"Express":          {"http://shop/", "a=1; Path=/\r\nSet-Cookie: a=; Path=/; " + gone, "http://shop/", ""},
		"another path's":   {"http://shop/", "a=1; Path=/\r\nSet-Cookie: a=; Path=/x; " + gone, "http://shop/", "a=1"},
		"Path":             {"http://shop/", "a=1; Path=/cart", "http://shop/cart/3?x", "a=1"},
		"not Path":         {"http://shop/", "a=1; Path=/cart", "http://shop/carts", ""},
		"default path":     {"http://shop/user/login?x", "a=1", "http://shop/user/me", "a=1"},
		"not default path": {"http://shop/user/login", "a=1", "http://shop/orders", ""},
		"Secure":           {"https://shop/", "a=1; Secure", "https://shop/", "a=1"},
		"not Secure":       {"http://shop/", "a=1; Secure", "http://shop/", ""},
		"Domain":           {"http://a.shop.test/", "a=1; Domain=shop.test", "http://b.shop.test/", "a=1"},
		"not Domain":       {"http://a.shop.test/", "a=1", "http://b.shop.test/", ""},
		"foreign Domain":   {"http://shop.test/", "a=1; Domain=other.test", "http://shop.test/", ""},
		"a suffix":         {"http://shop.co.uk/", "a=1; Domain=co.uk", "http://shop.co.uk/", ""},
		"any value":        {"http://shop/", `a={"b": "c,d"}; Path=/`, "http://shop/", `a={"b": "c,d"}`},
	} {
		parse := func(text string) (at url.URL, line []byte) {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			return url.URL{Scheme: u.Scheme, Host: u.Host}, []byte("GET " + u.RequestURI() + " HTTP/1.1\r\n")
		}
		var one user
		var line []byte
		one.at, line = parse(c.from)
		one.appendCookies(line)
		one.takeCookies([]byte("Set-Cookie: " + c.set + "\r\n"))
		one.at, line = parse(c.to)
		got := strings.TrimPrefix(string(one.appendCookies(line)), string(line))
		if got = strings.TrimSuffix(strings.TrimPrefix(got, "Cookie: "), "\r\n"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// against runs a session against a server.
func against(t *testing.T, text string, feed *Feed, answer http.HandlerFunc, change func(*load.Config)) *load.Result {
	t.Helper()
	server := httptest.NewServer(answer)
	defer server.Close()
	steps, mix := session(t, text)
	c := load.Config{
		To: load.To(ring.TCPAddr(netip.MustParseAddrPort(server.Listener.Addr().String()))), Connections: 4, Threads: 1, Pipelining: 1,
		Timeout: 10 * time.Second, Engine: ring.Epoll, Mix: make([]load.Request, len(mix)),
	}
	change(&c)
	var err error
	if c.Mix[0].Compose, err = Sessions(steps, mix, feed, c.Threads, 1); err != nil {
		t.Fatal(err)
	}
	r, err := load.Run(t.Context(), c, silent{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A value at the end of a long body is found: its rest is not dropped in the kernel, as it is where
// nobody reads bodies.
func TestCaptureOfALongBody(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 400_000) + "end7"
	r := against(t, "steps: [{request: GET /, capture: {n: 'body end(\\d)$'}}, {request: 'GET /{{.n}}'}]", nil,
		func(out http.ResponseWriter, in *http.Request) {
			switch in.URL.Path {
			case "/":
				out.Header().Set("Content-Length", fmt.Sprint(len(long)))
				_, _ = fmt.Fprint(out, long)
			case "/7":
			default:
				out.WriteHeader(http.StatusNotFound)
			}
		}, func(c *load.Config) { c.Requests = 40 })
	first, second := r.Total.ByTarget[0].Completed, r.Total.ByTarget[1].Completed
	if first+second != 40 || second < 15 || r.Total.Bad != 0 {
		t.Errorf("%d of the first step, %d of the second, %d bad", first, second, r.Total.Bad)
	}
}

// In an open loop the rate sets the pace: think times are left out.
func TestNoThinkTimeInAnOpenLoop(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	rate, err := unit.ParseRate("100")
	if err != nil {
		t.Fatal(err)
	}
	r := against(t, "steps: [{request: GET /, think: 1h}]", nil, func(http.ResponseWriter, *http.Request) {},
		func(c *load.Config) { c.Rate, c.Duration, c.Drain = rate, 500*time.Millisecond, 10*time.Second })
	if r.Total.Completed != 50 || r.Unsent != 0 {
		t.Errorf("%d of 50 completed, %d not sent", r.Total.Completed, r.Unsent)
	}
}
