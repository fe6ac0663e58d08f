//go:build linux

package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/valyala/fasthttp"

	"ceiling/internal/needs"
)

// An answer is what a client can see of one, without what a framework says about itself.
type answer struct {
	status                   int
	contentType, encoding    string
	length                   int64
	chunked                  bool
	body                     []byte
	date, allow, keepsServer bool
}

// read takes the answer to a request of that method off the connection.
func (c *client) read(t *testing.T, method string) answer {
	t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{
		status: resp.StatusCode, length: resp.ContentLength, chunked: len(resp.TransferEncoding) > 0, body: body,
		contentType: resp.Header.Get("Content-Type"), encoding: resp.Header.Get("Content-Encoding"),
		date: resp.Header.Get("Date") != "", allow: resp.Header.Get("Allow") != "", keepsServer: !resp.Close,
	}
}

// Every framework answers every route with the headers of the catalogue and a body of the pool.
func TestFrameworksAnswerAlike(t *testing.T) {
	needs.Processes(t)
	p := mustPool(t)
	of := map[string]map[string]bool{"/simple": {}, "/read": {}, "/read-gz": {}, "/list": {}, "/healthz": {}}
	of["/simple"][`{"message":"hi"}`] = true
	of["/healthz"]["ok\n"] = true
	for _, x := range p.products {
		of["/read"][string(x.json)] = true
		of["/read-gz"][string(x.gzip)] = true
	}
	for _, l := range p.lists {
		of["/list"][string(l)] = true
	}
	for _, k := range Catalogue() {
		t.Run(k.Name, func(t *testing.T) {
			c := newClient(t, start(t, k.Name, Config{}).addr)
			for _, r := range Routes() {
				different := map[string]bool{}
				for range 20 {
					c.send(t, http.MethodGet, r.Path)
					a := c.read(t, http.MethodGet)
					if a.status != 200 || a.contentType != r.ContentType || a.encoding != r.ContentEncoding || !a.date || !a.keepsServer {
						t.Fatalf("%s: %+v", r.Path, a)
					}
					if a.chunked || a.length != int64(len(a.body)) {
						t.Fatalf("%s: length %d for %d bytes, chunked %v", r.Path, a.length, len(a.body), a.chunked)
					}
					if r.computed {
						checkComputed(t, a.body)
					} else if !of[r.Path][string(a.body)] {
						t.Fatalf("%s: not of the pool: %.80q", r.Path, a.body)
					}
					different[string(a.body)] = true
				}
				// One in 8^19 or fewer when the draws are random, so this tells that they are.
				if constant := len(of[r.Path]) == 1; constant != (len(different) == 1) {
					t.Errorf("%s: %d different bodies", r.Path, len(different))
				}
			}
		})
	}
}

// checkComputed checks what can be told of an answer of /compute without its seed. That the bytes are the route's is
// a matter of the handler, which TestSummarise and the framework's own test of its copy hold.
func checkComputed(t *testing.T, body []byte) {
	t.Helper()
	var s summary
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil || s.Count != sampleSize || len(s.Brands) != topCount {
		t.Fatalf("/compute: %v: %q", err, body)
	}
}

// Lists of another size are the same of every framework too.
func TestFrameworksListAlike(t *testing.T) {
	s, err := newSite(350)
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string]bool{}
	for _, l := range s.pool.lists {
		lists[string(l)] = true
	}
	for _, k := range Catalogue() {
		if k.Forks {
			continue // its children read the size from their command line, which here is the test's
		}
		t.Run(k.Name, func(t *testing.T) {
			c := newClient(t, start(t, k.Name, Config{ListKB: 350}).addr)
			for range 10 {
				c.send(t, http.MethodGet, "/list")
				if a := c.read(t, http.MethodGet); !lists[string(a.body)] || a.length != int64(len(a.body)) || a.chunked {
					t.Fatalf("status %d, %d bytes, not one of the lists", a.status, a.length)
				}
			}
		})
	}
}

// HEAD says what GET would, and sends no body; what is not there is not there in the same way.
func TestFrameworksRefuseAlike(t *testing.T) {
	needs.Processes(t)
	for _, k := range Catalogue() {
		t.Run(k.Name, func(t *testing.T) {
			c := newClient(t, start(t, k.Name, Config{}).addr)
			ask := func(method, path string) answer {
				t.Helper()
				c.send(t, method, path)
				return c.read(t, method)
			}
			for _, r := range Routes() {
				a := ask(http.MethodHead, r.Path)
				if a.status != 200 || a.contentType != r.ContentType || a.encoding != r.ContentEncoding || len(a.body) != 0 || a.length <= 0 {
					t.Errorf("HEAD %s: %+v", r.Path, a)
				}
				if a := ask(http.MethodPost, r.Path); a.status != 405 || !a.allow {
					t.Errorf("POST %s: %d, Allow %v", r.Path, a.status, a.allow)
				}
				if a := ask(http.MethodGet, r.Path+"?x=1"); a.status != 200 {
					t.Errorf("GET %s?x=1: %d", r.Path, a.status)
				}
			}
			for _, path := range []string{"/", "/nowhere", "/read/", "/Read", "/read/1", "/healthz/x"} {
				for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
					if a := ask(method, path); a.status != 404 {
						t.Errorf("%s %s: %d", method, path, a.status)
					}
				}
			}
			if a := ask(http.MethodGet, "/simple"); string(a.body) != `{"message":"hi"}` {
				t.Errorf("the connection is out of step: %q", a.body)
			}
		})
	}
}

// Requests that arrive together are answered each, in order.
func TestFrameworksTakePipelines(t *testing.T) {
	needs.Processes(t)
	var paths []string
	for range 20 {
		for _, r := range Routes() {
			paths = append(paths, r.Path)
		}
	}
	for _, k := range Catalogue() {
		t.Run(k.Name, func(t *testing.T) {
			c := newClient(t, start(t, k.Name, Config{}).addr)
			sent := make(chan struct{})
			go func() { // the answers do not fit into the socket's buffers, so someone must read meanwhile
				defer close(sent)
				c.send(t, http.MethodGet, paths...)
			}()
			for i, path := range paths {
				r := route(t, path)
				a := c.read(t, http.MethodGet)
				if a.status != 200 || a.contentType != r.ContentType || a.encoding != r.ContentEncoding {
					t.Fatalf("answer %d, to %s: %+v", i, path, a)
				}
				if path == "/simple" && string(a.body) != `{"message":"hi"}` {
					t.Fatalf("answer %d, to %s: %q", i, path, a.body)
				}
			}
			<-sent
		})
	}
}

// discard is a ResponseWriter that costs nothing, so that what is left are the handler's own allocations.
type discard struct {
	header http.Header
	length int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(b []byte) (int, error) {
	d.length = len(b)
	return len(b), nil
}

func TestHandlersDoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes sync.Pool forget")
	}
	s, err := newSite(0)
	if err != nil {
		t.Fatal(err)
	}
	lengths := lengthHeaders(s.pool)
	fiberHandler := mountFiber(s).(*fiberApp).app.Handler()
	for i := range s.routes {
		r := &s.routes[i]
		check := func(framework string, f func()) {
			t.Helper()
			if n := testing.AllocsPerRun(500, f); n != 0 && !r.computed {
				t.Errorf("%s, %s: %v allocations", framework, r.Path, n)
			}
		}
		std, w := netHTTPHandler(s, r, lengths), &discard{header: http.Header{}}
		check("nethttp", func() { std(w, nil) })
		if !r.computed && w.header.Get("Content-Length") != strconv.Itoa(w.length) {
			t.Errorf("%s: Content-Length %q for %d bytes", r.Path, w.header.Get("Content-Length"), w.length)
		}
		for name, handler := range map[string]fasthttp.RequestHandler{"fasthttp": fastHTTPHandler(s), "fiber": fiberHandler} {
			var c fasthttp.RequestCtx
			c.Request.SetRequestURI("http://test" + r.Path)
			handler(&c) // parses the address, once for all
			check(name, func() {
				c.Response.Reset()
				handler(&c)
			})
			if c.Response.StatusCode() != 200 {
				t.Errorf("%s, %s: status %d", name, r.Path, c.Response.StatusCode())
			}
		}
	}
}
