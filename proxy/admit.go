package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"ceiling/internal/http1"
	"ceiling/proxy/access"
	"ceiling/proxy/route"
)

// passwordWithin is how long a password may wait for others to be checked.
const passwordWithin = 5 * time.Second

// enter lets a request in: at once, later, or not at all.
func (e *entrance) enter(x *exchange, clean []byte) {
	switch {
	case e.networks != nil && !e.networks.Admits(x.address()):
		x.answer(403, "this address is not allowed")
	case e.cors != nil && e.preflight(x):
	case e.passwords != nil:
		e.password(x)
	case e.forward != nil:
		e.ask(x)
	default:
		x.proceed(clean)
	}
}

// preflight adds what a browser wants to know of the response, and reports whether the request was a
// preflight, which it answers: it has no password.
func (e *entrance) preflight(x *exchange) bool {
	head, a := x.head(), additionsOf(&x.inbound)
	origin := x.fieldOf(head, "origin")
	a.response = e.cors.Lines(a.response, origin)
	if string(x.request.Method) != "OPTIONS" || len(origin) == 0 || len(x.fieldOf(head, "access-control-request-method")) == 0 {
		return false
	}
	if !e.cors.Allows(origin) {
		x.answer(403, "this origin is not allowed")
		return true
	}
	a.response = append(a.response, e.cors.Preflight(x.fieldOf(head, "access-control-request-headers"))...)
	reply(x, 204, contentHead, nil, nil)
	return true
}

// password asks for a password, or checks the one that is there.
func (e *entrance) password(x *exchange) {
	user, password, ok := access.Credentials(x.fieldOf(x.head(), "authorization"))
	if !ok {
		e.refuse(x)
		return
	}
	in := func(x *exchange) {
		additionsOf(&x.inbound).user = user
		if e.forward != nil {
			e.ask(x)
			return
		}
		x.proceed(x.cleanPath())
	}
	if e.passwords.Known(user, password) {
		in(x)
		return
	}
	from := x.client.conn.loop.site.clientOf(x.address())
	inquire(x, passwordWithin, func(ctx context.Context) func(*exchange) {
		right, err := e.passwords.Check(ctx, from, user, password)
		switch {
		case err == access.ErrCrowded:
			return func(x *exchange) { x.answerLater(429, "too many passwords from this address are being checked", 1e9) }
		case err != nil:
			return func(x *exchange) { x.answerLater(503, "too many passwords are being checked at once", 1e9) }
		case !right:
			return e.refuse
		}
		return in
	})
}

// refuse asks for a name and a password (RFC 7617).
func (e *entrance) refuse(x *exchange) {
	a := additionsOf(&x.inbound)
	a.response = fmt.Appendf(a.response, "WWW-Authenticate: Basic realm=\"%s\", charset=\"UTF-8\"\r\n", e.realm)
	x.answer(401, "authentication is required")
}

// ask asks the service about a request, and lets it in or passes the service's answer on.
func (e *entrance) ask(x *exchange) {
	fields, report := questionOf(x), x.client.conn.loop.proxy.fail
	inquire(x, e.forward.Timeout(), func(ctx context.Context) func(*exchange) {
		a, err := e.forward.Ask(ctx, fields)
		switch {
		case err != nil && e.unasked.begins(rootCause(err)):
			report(err.Error() + "; its requests get 502 or 504")
		case err == nil && e.unasked.ends():
			report("the authentication service answers again")
		}
		switch {
		case errors.Is(err, access.ErrTimeout):
			return func(x *exchange) { x.answer(504, "the authentication service took too long") }
		case err != nil:
			return func(x *exchange) { x.answer(502, "the authentication service cannot be reached") }
		case a.Status != 0:
			return func(x *exchange) {
				x.why = "refused by the authentication service"
				reply(x, a.Status, contentHead, a.Lines, a.Body)
			}
		}
		return func(x *exchange) {
			more := additionsOf(&x.inbound)
			more.request = append(more.request, a.Lines...)
			x.proceed(x.cleanPath())
		}
	})
}

// questionOf returns the fields of a request, and what it is, in the words of nginx's auth_request and
// of Traefik's ForwardAuth.
func questionOf(x *exchange) http.Header {
	c, lines, h := x.client, x.lines(), http.Header{}
	head := c.in.b[x.headAt:x.headEnd]
	for i := range lines {
		if line := &lines[i]; line.Is == http1.Other && !line.Hop() {
			h.Add(string(line.Name(head)), string(line.Value(head)))
		}
	}
	for line := range strings.SplitSeq(string(x.appendForwarded(nil, head, lines)), "\r\n") {
		if name, value, found := strings.Cut(line, ": "); found {
			h.Set(name, value)
		}
	}
	_, path, query := route.SplitTarget(x.request.Target)
	target, method := string(path), string(x.request.Method)
	if query != nil {
		target += "?" + string(query)
	}
	h.Set("X-Forwarded-Method", method)
	h.Set("X-Forwarded-Uri", target)
	h.Set("X-Original-Method", method)
	h.Set("X-Original-Url", h.Get("X-Forwarded-Proto")+"://"+h.Get("X-Forwarded-Host")+target)
	return h
}

// inquire has ask run, for some time at most. What it returns runs in the loop, unless the client has
// left.
func inquire(x *exchange, within time.Duration, ask func(context.Context) func(*exchange)) {
	c, l := x.client, x.client.conn.loop
	ctx, cancel := context.WithTimeout(l.proxy.over, within)
	q := &inquiry{cancel}
	additionsOf(&x.inbound).inquiry = q
	l.proxy.tasks.Go(func() {
		defer cancel()
		then := ask(ctx)
		select {
		case l.calls <- func(*loop) { // another request may have the client, and its exchange, by now
			if c.x != nil && c.x.added != nil && c.x.added.inquiry == q {
				c.x.added.inquiry = nil
				then(c.x)
			}
		}:
			l.proxy.wakeUp(l.index)
		case <-l.proxy.over.Done():
		}
	})
}
