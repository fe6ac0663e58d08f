//go:build linux

package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"ceiling/server/backend"
	"ceiling/server/quorum"
)

// asked is an answer of a bucket's path.
type asked struct {
	status             int
	allow, contentType string
	body               string
}

func ask(t *testing.T, method, url, body string, header ...string) asked {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	if a.ContentLength != int64(len(text)) && method != http.MethodHead {
		t.Errorf("%s %s: a length of %d, and %d bytes", method, url, a.ContentLength, len(text))
	}
	return asked{a.StatusCode, a.Header.Get("Allow"), a.Header.Get("Content-Type"), string(text)}
}

// Every framework answers the paths of a bucket with the same bytes, and a write on a condition is one.
func TestFrameworksAnswerAlikeFromBuckets(t *testing.T) {
	for _, k := range kindsWithDatabase() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			at := "http://" + start(t, k.Name, Config{Behind: []backend.Open{quorum.Backend("net=loopback")}}).addr
			var first struct{ Revision uint64 } // its revision comes after those of the keys that are there from the start
			if a := ask(t, "PUT", at+"/kv/first", "x"); json.Unmarshal([]byte(a.body), &first) != nil || first.Revision < quorum.Keys {
				t.Fatalf("%+v", a)
			}
			after := func(n int) string { return fmt.Sprint(first.Revision + uint64(n)) }
			for _, test := range []struct {
				method, path, body string
				header             []string
				want               int
				answer             string
			}{
				{"PUT", "/kv/a", "x", nil, 200, `{"key":"a","revision":` + after(1) + `}`},
				{"GET", "/kv/a", "", nil, 200, `{"key":"a","revision":` + after(1) + `,"value":"x"}`},
				{"PUT", "/kv/a", "y", []string{"If-Match", after(0)}, 412, `{"error":"the key has another revision"}`},
				{"PUT", "/kv/a", "y", []string{"If-Match", `"` + after(1) + `"`}, 200, `{"key":"a","revision":` + after(2) + `}`},
				{"PUT", "/kv/a", "z", []string{"If-None-Match", "*"}, 412, `{"error":"the key has another revision"}`},
				{"PUT", "/kv/b", "", []string{"If-None-Match", "*"}, 200, `{"key":"b","revision":` + after(3) + `}`},
				{"PUT", "/kv/b", "1", []string{"If-Match", "*"}, 200, `{"key":"b","revision":` + after(4) + `}`},
				{"GET", "/kv/b?read=replica", "", nil, 200, `{"key":"b","revision":` + after(4) + `,"value":"1"}`},
				{"GET", "/kv/b?read=stale", "", nil, 200, `{"key":"b","revision":` + after(4) + `,"value":"1"}`},
				{"GET", "/kv/none", "", nil, 404, `{"error":"no such key"}`},
				{"GET", "/kv/a?read=mirror", "", nil, 400, `{"error":"the bucket has none to read from: it has no mirror"}`},
				{"GET", "/kv/a?read=fast", "", nil, 400, `{"error":"bad request: read=fast; there are linearizable, replica, stale and mirror"}`},
				{"GET", "/kv/_x", "", nil, 400, `{"error":"a key has 1 to 200 bytes and does not begin with _"}`},
				{"PUT", "/kv/a", "y", []string{"If-Match", "new"}, 400, `{"error":"bad request: If-Match has no revision"}`},
				{"PUT", "/kv/a", strings.Repeat("x", 65<<10), nil, 400, `{"error":"bad request: a value has up to 65536 bytes"}`},
				{"DELETE", "/kv/a", "", nil, 405, `{"error":"the method must be one of GET, HEAD, PUT"}`},
				{"PUT", "/kv", "", nil, 405, `{"error":"the method must be one of GET, HEAD"}`},
				{"HEAD", "/kv/a", "", nil, 200, ""},
			} {
				a := ask(t, test.method, at+test.path, test.body, test.header...)
				if a.status != test.want || a.body != test.answer || a.contentType != typeJSON || (a.status == 405) != (a.allow != "") {
					t.Errorf("%s %s %v: %+v", test.method, test.path, test.header, a)
				}
			}
			for _, test := range []struct {
				method string
				header []string
				want   string
			}{{"PUT", nil, `{"key":"k`}, {"GET", nil, `","revision":`}, {"PUT", []string{"If-Match", "*"}, `{"key":"k`}} {
				if a := ask(t, test.method, at+"/kv/*", "", test.header...); a.status != 200 || !strings.Contains(a.body, test.want) {
					t.Errorf("%s a key at random: %+v", test.method, a)
				}
			}
			var status struct {
				Product string
				Writes  int64
				Nodes   []struct{ PID int }
			}
			if a := ask(t, "GET", at+"/kv", ""); a.status != 200 || json.Unmarshal([]byte(a.body), &status) != nil || status.Writes < 7+quorum.Keys ||
				!strings.HasPrefix(status.Product, "NATS") || len(status.Nodes) != 1 || status.Nodes[0].PID == 0 {
				t.Errorf("status: %+v", a)
			}
			if a := ask(t, "GET", at+"/kv/a/b", ""); a.status != 404 {
				t.Errorf("a path below a key: %+v", a)
			}
		})
	}
}

func TestServeRefusesBuckets(t *testing.T) {
	for kind, cfg := range map[string]Config{
		"floor":   {Behind: []backend.Open{quorum.Backend("own")}},
		"nethttp": {Behind: []backend.Open{quorum.Backend("replicas=2")}},
		"fiber":   {Behind: []backend.Open{quorum.Backend("own")}, Prefork: true},
	} {
		if err := Serve(t.Context(), kind, cfg); err == nil || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%s serves with %+v: %v", kind, cfg, err)
		}
	}
}
