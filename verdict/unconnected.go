package verdict

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// Why nothing connected, or nothing was answered, and what to do about that cause.

// mostFrequent returns the error that was met most often of those that a condition holds for; of
// equals the first.
func mostFrequent(run *record.Run, of func(record.Error) bool) (most record.Error, any bool) {
	for _, e := range run.Errors {
		if of(e) && e.Count > most.Count {
			most, any = e, true
		}
	}
	return most, any
}

// unconnected says why no connection was established, and what to do.
func unconnected(run *record.Run) (because, next []record.Statement) {
	e, any := mostFrequent(run, record.Error.OfConnecting)
	switch {
	case !any && run.Interrupted:
		return just("unconnected.interrupted", nil), just("unconnected.interrupted.next", nil)
	case !any:
		return just("unconnected", with{"causes": causesOf(run)}), just("unconnected.next", nil)
	}
	by := unconnectedBy(e, run.Spec.OverUnix())
	values := with{"address": addressOf(run), "cause": e.Cause, "timeout_ns": int64(run.Spec.Timeout), "unix": run.Spec.OverUnix()}
	because = just("unconnected."+by, values)
	if by == "tls" {
		return because, []record.Statement{TLSNext(e.Cause, run.Spec.TLS)}
	}
	return because, just("unconnected."+by+".next", values)
}

// unconnectedBy classifies the error that kept connections from being established.
func unconnectedBy(e record.Error, unix bool) string {
	is := func(list ...string) bool { return slices.Contains(list, e.Cause) }
	closed := strings.HasPrefix(e.Cause, "connection closed") || is("ECONNRESET", "EPIPE", "ECONNABORTED")
	switch {
	case e.Phase == record.PhaseTLS && is("timeout", "ETIMEDOUT"):
		return "tls-silent"
	case e.Phase == record.PhaseTLS && closed:
		return "tls-closed"
	case e.Phase == record.PhaseTLS:
		return "tls"
	case e.Phase == record.PhaseOpen:
		return unopenedBy(e.Cause)
	case is("ECONNREFUSED") || strings.HasPrefix(e.Cause, "connected to itself"):
		return "refused"
	case unix && is("EAGAIN"):
		return "backlog"
	case unix && is("EPROTOTYPE", "ENOTSOCK"):
		return "other-socket"
	case unix && is("ENOENT", "ENOTDIR", "ELOOP"):
		return "no-socket"
	case is("timeout", "ETIMEDOUT"):
		return "silent"
	case is("EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENONET", "ENOPROTOOPT"):
		return "unreachable"
	case is("ECONNRESET", "ECONNABORTED", "EPIPE"):
		return "reset"
	case closed:
		return "closed"
	}
	return "failed"
}

// unopenedBy classifies what answered the opening of a WebSocket.
func unopenedBy(cause string) string {
	status, _ := strings.CutPrefix(cause, "status ")
	status, _, _ = strings.Cut(status, " ")
	switch {
	case cause == "timeout" || cause == "ETIMEDOUT":
		return "open-silent"
	case status == "401" || status == "403" || status == "407":
		return "open-credentials"
	case status == "400" || status == "426" || status == "501":
		return "open-upgrade"
	case status == "429" || len(status) == 3 && status >= "500" && status < "600":
		return "open-refuses"
	}
	return "open"
}

// addressOf is the address that the run connects to, as a person wrote it.
func addressOf(run *record.Run) string {
	a, err := run.Spec.Address(run.Target)
	if err != nil {
		return cmp.Or(run.Target, "the target")
	}
	return a.String()
}

// TLSNext says what would let a TLS handshake succeed, by its cause in the words of tlsconn.Explain.
func TLSNext(cause string, t *spec.TLS) record.Statement {
	says := func(list ...string) bool {
		return slices.ContainsFunc(list, func(text string) bool { return strings.Contains(cause, text) })
	}
	chosen := t != nil && t.Version+t.Ciphers+t.Curves != ""
	code := ""
	switch {
	case says("certificate expired", "certificate is not valid before"):
		code = ".expired"
	case says("certificate is for "):
		code = ".name"
	case says("unknown authority"):
		code = ".authority"
	case says("x509: "):
		code = ".insecure"
	case says("does not speak TLS"):
		code = ".plain"
	case chosen && says("handshake failure", "protocol version", "insufficient security"):
		code = ".offered"
	case says("certificate required", "bad certificate", "unknown certificate"):
		code = ".client"
	case says("handshake failure", "insufficient security"):
		code = ".common"
	case says("protocol version"):
		code = ".version"
	case says("unrecognized name"):
		code = ".sni"
	case says("no application protocol"):
		code = ".protocol"
	}
	return say("tls.next"+code, nil)
}

// unanswered says what to do if requests were sent and none was answered.
func unanswered(run *record.Run) []record.Statement {
	if next := otherProtocol(run); next != nil {
		return next
	}
	e, any := mostFrequent(run, func(e record.Error) bool { return !e.OfConnecting() })
	switch {
	case !any:
	case e.Cause == "timeout" || e.Cause == "ETIMEDOUT":
		return just("unanswered.timeout.next", with{"timeout_ns": int64(run.Spec.Timeout)})
	case strings.HasPrefix(e.Cause, "connection closed"), e.Cause == "ECONNRESET", e.Cause == "EPIPE":
		return just("unanswered.closed.next", nil)
	case strings.HasPrefix(e.Cause, "malformed"), strings.HasPrefix(e.Cause, "bytes that"):
		return just("unanswered.malformed.next", nil)
	}
	return just("nothing.not-answered.next", nil)
}

// otherProtocol says what to do if the server speaks another protocol on this port than the run;
// nil if it does not say so.
func otherProtocol(run *record.Run) []record.Statement {
	older := func(e record.Error) bool { return e.OfRequest() && strings.Contains(e.Cause, "HTTP/1.1") }
	plain := strings.HasPrefix(run.Target, "http://") || strings.HasPrefix(run.Target, "ws://")
	for _, e := range run.ErrorResponses {
		switch {
		case e.Status == 0 && run.Requests.Completed > 0: // it does speak HTTP
		case plain && asksForTLS(e):
			return just("protocol.tls.next", nil)
		case e.Status == 0 && strings.HasPrefix(e.Line, "HTTP/2"):
			return just("protocol.http2.next", nil)
		case e.Status == 0 && e.Line != "":
			return just("protocol.other.next", with{"line": strconv.Quote(e.Line)})
		}
	}
	if run.Spec.HTTP == spec.HTTP2 && slices.ContainsFunc(run.Errors, older) {
		return just("protocol.http1.next", nil)
	}
	return nil
}

// asksForTLS reports whether a response says that plain HTTP came to a port for TLS: the alert of a
// TLS server, or the page of nginx ("The plain HTTP request was sent to HTTPS port"), Apache
// ("You're speaking plain HTTP to an SSL-enabled server port"), Go ("Client sent an HTTP request to
// an HTTPS server"), Tomcat ("This combination of host and port requires TLS") and others.
func asksForTLS(e record.ErrorResponse) bool {
	if e.Status >= 500 || e.Status > 0 && e.Status < 400 {
		return false
	}
	line := strings.ToLower(e.Line)
	says := func(list ...string) bool {
		return slices.ContainsFunc(list, func(text string) bool { return strings.Contains(line, text) })
	}
	switch {
	case e.Status == 0:
		return strings.HasPrefix(e.Line, "TLS")
	case says("https") && says("http request", "plain http", "http was sent", "http to ", "speaking http", "http on "):
		return true
	}
	return says("ssl-enabled", "requires tls", "requires ssl", "requires https", "tls required", "ssl required", "https required",
		"https is required", "tls is required", "ssl is required", "use https", "using https", "https scheme", "https only", "over https", "tls port", "https port")
}
