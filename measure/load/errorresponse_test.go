//go:build linux

package load

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// TestPageText: what a person would read of the pages that servers send with an error.
func TestPageText(t *testing.T) {
	packed := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		fmt.Fprint(z, text)
		z.Close()
		return b.String()
	}
	long := strings.Repeat("ä", 300)
	nginx := "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n" +
		"<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
	for name, c := range map[string]struct{ body, want string }{
		"nothing":        {"", ""},
		"blank lines":    {" \n\r\n\t\n", ""},
		"plain":          {"404 page not found\n", "404 page not found"},
		"second line":    {"\r\n \r\nno such user\r\nmore", "no such user"},
		"status, why":    {"Bad Request\r\nThis combination of host and port requires TLS.\r\n", "Bad Request: This combination of host and port requires TLS."},
		"terminal":       {"\x1b]0;title\aa\tb \x1b[31;1mred\x1b[0m\x00\u200e", "a b red"},
		"long":           {long, long[:200]},
		"long, odd":      {"x" + long, "x" + long[:198]},
		"binary":         {"\x00\x01\x02\x03\xff\xfe\xfd", ""},
		"mark":           {"\uFEFFno such user", "no such user"},
		"packed":         {packed("\nit broke\nhere"), "it broke"},
		"packed, cut":    {packed(strings.Repeat("it broke \n", 9999))[:60], "it broke"},
		"packed, no gz":  {"\x1f\x8b\x08 what", ""},
		"json":           {`{"error":"no such user"}`, "no such user"},
		"json, pretty":   {"{\n  \"status\": 404,\n  \"message\": \"no such\\nuser\"\n}\n", "no such user"},
		"json, nested":   {`{"error":{"code":404,"status":"NOT_FOUND","message":"no such user"}}`, "no such user"},
		"json, both":     {`{"timestamp":1,"error":"Not Found","message":"no such user","path":"/x"}`, "Not Found: no such user"},
		"json, same":     {`{"error":"Not Found","message":"Not Found"}`, "Not Found"},
		"json, list":     {`{"data":null,"errors":[{"message":"no field x","locations":[{"line":1}]}]}`, "no field x"},
		"json, texts":    {`{"errors":["too short","too old"]}`, "too short"},
		"json, cut":      {`{"detail": "no such user", "trace": ["a", "b`, "no such user"},
		"json, case":     {`{"ErrorMessage":"no such user"}`, "no such user"},
		"json, oauth":    {`{"error":"invalid_token","error_description":"it expired"}`, "invalid_token: it expired"},
		"json, escapes":  {`{"message":"a\u001b[31mb"}`, "ab"},
		"json, no words": {"{\n  \"code\": 7,\n  \"ok\": false\n}", `{"code":7,"ok":false}`},
		"problem": {`{"type":"https://a.test/p","title":"Out of credit","status":403,"detail":"Your balance is 30"}`,
			"Out of credit: Your balance is 30"},
		"html, nginx":  {nginx, "404 Not Found"},
		"html, one of": {"<!DOCTYPE html><html><head><title>Shop\n &mdash; closed</title></head><body><p>Come back</p>", "Shop — closed"},
		"html, express": {"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Error</title>\n</head>\n" +
			"<body>\n<pre>Cannot GET /nope</pre>\n</body>\n</html>\n", "Error: Cannot GET /nope"},
		"html, apache": {"<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>404 Not Found</title>\n</head><body>\n" +
			"<h1>Not Found</h1>\n<p>The requested URL was not found on this server.</p>\n</body></html>\n",
			"404 Not Found: The requested URL was not found on this server."},
		"html, tomcat": {"<!doctype html><html><head><title>HTTP Status 404 – Not Found</title></head><body><h1>HTTP Status 404 – Not Found</h1>" +
			"<hr/><p><b>Type</b> Status Report</p><p><b>Description</b> The origin server did not find it.</p></body></html>",
			"HTTP Status 404 – Not Found: Description The origin server did not find it."},
		"html, python": {"<!DOCTYPE HTML>\n<html>\n <head>\n <title>Error response</title>\n </head>\n <body>\n <h1>Error response</h1>\n" +
			" <p>Error code: 404</p>\n <p>Message: File not found.</p>\n", "Error response: Message: File not found."},
		"html, untitled": {"<html><style>p {color: red}</style><script>if (a<b) {}</script><body><!-- <p>no</p> --><p>It <b>broke</b>.<br>Sorry</p>",
			"It broke. Sorry"},
		"html, bare":   {"<h1>503 Service Unavailable</h1>\nNo server is available to handle this request.\n", "No server is available to handle this request."},
		"html, empty":  {"<html></html>", "<html></html>"},
		"html, status": {"<html><body><h1>Not Found</h1></body></html>", "Not Found"},
		"xml":          {`<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>The key does not exist.</Message></Error>`, "NoSuchKey: The key does not exist."},
		"soap": {"<soap:Envelope xmlns:soap=\"http://x\"><soap:Body><soap:Fault>\n <faultcode>soap:Server</faultcode>\n" +
			" <faultstring>no such user</faultstring></soap:Fault></soap:Body></soap:Envelope>", "no such user"},
	} {
		if got := pageText([]byte(c.body)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestStrangers: what a server that speaks another protocol says first is kept, whether it speaks
// before a request or after it.
func TestStrangers(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		for name, c := range map[string]struct {
			steps []faultserver.Step
			want  string
		}{
			"ssh":    {[]faultserver.Step{faultserver.Write("SSH-2.0-OpenSSH_9.2\r\n"), faultserver.Stall()}, "SSH-2.0-OpenSSH_9.2"},
			"redis":  {[]faultserver.Step{faultserver.Request(1), faultserver.Write("-ERR unknown command\r\n"), faultserver.Stall()}, "-ERR unknown command"},
			"TLS":    {[]faultserver.Step{faultserver.Request(1), faultserver.Write("\x15\x03\x01\x00\x02\x02\x46"), faultserver.Close()}, SaysTLS},
			"HTTP/2": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x01\x00\x00"), faultserver.Close()}, SaysHTTP2},
			"late": {[]faultserver.Step{faultserver.Request(1), faultserver.Write(faultserver.OK("x")), faultserver.Request(1),
				faultserver.Write("garbage\r\n"), faultserver.Close()}, ""},
		} {
			t.Run(name, func(t *testing.T) {
				r := runs(t, config(t, serve(t, faultserver.Every(c.steps...)), engine, 20))
				got := ""
				if len(r.Errors) > 0 {
					got = r.Errors[0].Line
				}
				if got != c.want || len(r.Errors) > 1 {
					t.Errorf("%+v, want %q", r.Errors, c.want)
				}
			})
		}
	})
}

// TestErrorResponses: of each unexpected status the first response is kept, with
// the line that says why, on both engines, with pipelining and chunked bodies;
// responses that were expected leave nothing.
func TestErrorResponses(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		missing := faultserver.Response("404 Not Found", "", "no such path\nsecond line")
		broken := "HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nit broke\n\r\n0\r\n\r\n"
		for name, c := range map[string]struct {
			script     func(int) faultserver.Script
			pipelining int
			unexpected *[1000]bool
			want       []ErrorResponse
			bad        uint64
		}{
			"fine":    {faultserver.Every(faultserver.Answer(faultserver.OK("secret"))), 1, nil, nil, 0},
			"missing": {faultserver.Every(faultserver.Answer(missing)), 1, nil, []ErrorResponse{{Status: 404, Line: "no such path"}}, 400},
			"deep":    {faultserver.Every(faultserver.Answer(missing)), 8, nil, []ErrorResponse{{Status: 404, Line: "no such path"}}, 400},
			"both": {faultserver.Every(faultserver.Loop(faultserver.AnswerTimes(1, missing), faultserver.AnswerTimes(1, broken))), 1, nil,
				[]ErrorResponse{{Status: 404, Line: "no such path"}, {Status: 500, Line: "it broke"}}, 400},
			"parts": {faultserver.Every(faultserver.Loop(faultserver.Request(1), faultserver.Drip(missing, 9))), 1, nil,
				[]ErrorResponse{{Status: 404, Line: "no such path"}}, 400},
			"expected": {faultserver.Every(faultserver.Answer(missing)), 1, new([1000]bool), nil, 0},
		} {
			t.Run(name, func(t *testing.T) {
				s := serve(t, c.script)
				cfg := config(t, s, engine, 400)
				cfg.Pipelining, cfg.Expect.Unexpected = c.pipelining, c.unexpected
				r := runs(t, cfg)
				if !reflect.DeepEqual(r.Errors, c.want) || r.Total.Bad != c.bad {
					t.Errorf("%d bad, %v; want %d, %v", r.Total.Bad, r.Errors, c.bad, c.want)
				}
			})
		}
	})
}
