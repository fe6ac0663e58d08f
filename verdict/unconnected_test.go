package verdict

import (
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestUnconnected: the cause that nothing connected comes first, and the advice fits it.
func TestUnconnected(t *testing.T) {
	for _, c := range []struct{ target, phase, cause, because, next string }{
		{"", "connect", "ECONNREFUSED", "nothing is listening on 127.0.0.1:80", "start the server, or check the port (ss -ltn)"},
		{"", "connect", "connected to itself: nothing is listening", "nothing is listening on 127.0.0.1:80", "start the server"},
		{"", "connect", "timeout", "127.0.0.1:80 did not answer within 2.00 s", "firewall"},
		{"", "connect", "ETIMEDOUT", "did not answer within", "firewall"},
		{"", "connect", "EHOSTUNREACH", "the network reports that 127.0.0.1:80 cannot be reached (EHOSTUNREACH)", "traceroute"},
		{"", "connect", "ECONNRESET", "resets each connection", "PROXY protocol"},
		{"", "connect", "connection closed before a request", "closes each connection as soon as it is opened", "PROXY protocol"},
		{"", "connect", "something new", "no connection to 127.0.0.1:80: something new", "check that the target's address"},
		{"unix:/x.sock:/", "connect", "ENOENT", "no socket at /x.sock", "check the path"},
		{"unix:/x.sock:/", "connect", "ECONNREFUSED", "nothing is listening on /x.sock", "(ss -lx)"},
		{"unix:/x.sock:/", "connect", "EAGAIN", "the accept queue of the socket /x.sock is full", "backlog"},
		{"unix:/x.sock:/", "connect", "EPROTOTYPE", "/x.sock is not a stream socket", "ss -lx"},
		{"https://a.test/", "tls", "timeout", "a.test:443 accepts connections, but did not answer the TLS handshake", "openssl s_client -connect a.test:443"},
		{"https://a.test/", "tls", "ECONNRESET", "closes the connection in the TLS handshake (ECONNRESET)", "--sni"},
		{"https://a.test/", "tls", "connection closed in the TLS handshake", "closes the connection in the TLS handshake", "--cert, --key"},
		{"https://a.test/", "tls", "TLS alert from the server: certificate required", "certificate required", "--cert FILE and --key FILE"},
		{"https://a.test/", "tls", "TLS alert from the server: unrecognized name", "unrecognized name", "--sni"},
		{"https://a.test/", "tls", "TLS alert from the server: no application protocol", "no application protocol", "remove --http"},
		{"https://a.test/", "tls", "the certificate expired on 2020-01-01 00:00:00 UTC", "expired", "renewed"},
		{"https://a.test/", "tls", "the certificate is for b.test, not for a.test", "is for b.test", "--sni"},
		{"https://a.test/", "tls", "the certificate is signed by an unknown authority", "unknown authority", "--cacert FILE"},
		{"https://a.test/", "tls", "the server does not speak TLS on this port", "does not speak TLS", "http://"},
		{"https://a.test/", "tls", "anything else", "failed: anything else", "openssl s_client"},
		{"ws://a.test/", "open", "status 404 in place of 101", "did not open the WebSocket: status 404", "path is a WebSocket's"},
		{"ws://a.test/", "open", "status 401 in place of 101", "status 401", "credentials"},
		{"ws://a.test/", "open", "status 426 in place of 101", "status 426", "upgrade"},
		{"ws://a.test/", "open", "status 503 in place of 101", "status 503", "server's log"},
		{"ws://a.test/", "open", "timeout", "did not answer the opening of the WebSocket within 2.00 s", "--timeout"},
	} {
		run := closedRun()
		run.Target = c.target
		if c.target == "" {
			run.Target = "http://127.0.0.1/"
		}
		run.Spec.Targets, run.Spec.Timeout = []spec.Target{{URL: run.Target}}, 2*time.Second
		if strings.HasPrefix(run.Target, "ws:") {
			run.Spec.Kind = spec.Messages
		}
		run.Requests, run.Load.Established, run.Statuses = record.Requests{}, 0, nil
		run.Errors = []record.Error{{Phase: "connect", Cause: "rare", Count: 1}, {Phase: c.phase, Cause: c.cause, Count: 64, BeforeWindow: true}}
		v := Judge(run, nil)
		because, next := prose.Sentence(v.Because), prose.Sentence(v.Next)
		if v.Outcome != record.Invalid || !strings.Contains(because, c.because) || !strings.Contains(next, c.next) {
			t.Errorf("%s %s: %s: %s; next: %s\nwant %q, %q", c.phase, c.cause, v.Outcome, because, next, c.because, c.next)
		}
	}
	run := closedRun()
	run.Requests, run.Load.Established, run.Interrupted = record.Requests{}, 0, true
	if v := Judge(run, nil); !strings.Contains(prose.Sentence(v.Because), "interrupted before a connection was established") {
		t.Errorf("interrupted: %s", prose.Sentence(v.Because))
	}
}

// TestUnanswered: of requests that were sent and not answered, too.
func TestUnanswered(t *testing.T) {
	for _, c := range []struct {
		cause string
		says  record.ErrorResponse
		next  string
	}{
		{"timeout", record.ErrorResponse{Status: 1}, "takes longer than --timeout (2.00 s): raise it above the response time"},
		{"ECONNRESET", record.ErrorResponse{Status: 1}, "PROXY protocol"},
		{"connection closed before the response", record.ErrorResponse{Status: 1}, "check the server's log"},
		{"malformed status line", record.ErrorResponse{Status: 1}, "speaks HTTP/1.1"},
		{"malformed status line", record.ErrorResponse{Line: "SSH-2.0-OpenSSH_9.2"}, `does not speak HTTP on this port: it says "SSH-2.0-OpenSSH_9.2"`},
		{"malformed status line", record.ErrorResponse{Line: "TLS alert"}, "use https:// in the URL"},
		{"malformed status line", record.ErrorResponse{Line: "HTTP/2 SETTINGS"}, "give --http 2"},
		{"ECONNRESET", record.ErrorResponse{Line: "TLS alert"}, "use https:// in the URL"},
	} {
		run := closedRun()
		run.Target = "http://127.0.0.1/"
		run.Spec.Targets, run.Spec.Timeout = []spec.Target{{URL: run.Target}}, 2*time.Second
		run.Requests, run.Statuses = record.Requests{Sent: 64, Failed: 64}, nil
		run.Errors = []record.Error{{Phase: record.PhaseResponse, Cause: c.cause, Count: 64}}
		run.ErrorResponses = []record.ErrorResponse{c.says}
		if next := prose.Sentence(Judge(run, nil).Next); !strings.Contains(next, c.next) {
			t.Errorf("%s, %q: next: %s; want %q", c.cause, c.says.Line, next, c.next)
		}
	}
}

// TestStrayBytes: a server that answers speaks HTTP, whatever else it sends.
func TestStrayBytes(t *testing.T) {
	run := closedRun()
	run.Target = "http://127.0.0.1/"
	run.Requests.Failed, run.Requests.Sent = run.Requests.Completed/10, run.Requests.Sent+run.Requests.Completed/10
	run.Errors = []record.Error{{Phase: record.PhaseResponse, Cause: "malformed status line", Count: run.Requests.Failed}}
	run.ErrorResponses = []record.ErrorResponse{{Line: "stray"}}
	if v := Judge(run, nil); v.Bottleneck != record.Failures || strings.Contains(prose.Sentence(v.Next), "does not speak HTTP") {
		t.Errorf("%s: %s; next: %s", v.Bottleneck, prose.Sentence(v.Because), prose.Sentence(v.Next))
	}
}

// TestAsksForTLS: the pages of servers of TLS that get plain HTTP, and pages that only mention it.
func TestAsksForTLS(t *testing.T) {
	for line, want := range map[string]bool{
		"400 The plain HTTP request was sent to HTTPS port": true, // nginx
		"400 Bad Request: Your browser sent a request that this server could not understand. Reason: You're speaking plain HTTP to an SSL-enabled server port.": true, // Apache
		"Client sent an HTTP request to an HTTPS server.":              true, // Go, Caddy, Traefik
		"Bad Request: This combination of host and port requires TLS.": true, // Tomcat
		"403.4 - Forbidden: SSL is required to view this resource.":    true, // IIS
		"HTTPS required":               true,
		"see https://docs.test/errors": false,
		"400 Bad Request":              false,
		"":                             false,
	} {
		if got := asksForTLS(record.ErrorResponse{Status: 400, Line: line}); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
	if asksForTLS(record.ErrorResponse{Status: 502, Line: "The plain HTTP request was sent to HTTPS port"}) {
		t.Error("a gateway repeats what a server behind it said")
	}
}
