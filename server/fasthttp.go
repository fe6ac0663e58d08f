package server

import (
	"context"
	"net"
	"sync"
	"time"

	"ceiling/server/backend"

	"github.com/valyala/fasthttp"
)

// fastHTTP is a fasthttp server with default settings: up to 262,144 connections and no timeouts.
type fastHTTP struct {
	server *fasthttp.Server
	conns  *connections
}

func mountFastHTTP(s *site) engine {
	return newFastHTTP(&fasthttp.Server{Handler: fastHTTPHandler(s), CloseOnShutdown: true, Logger: s.log})
}

// newFastHTTP wraps a server that has not been started.
func newFastHTTP(server *fasthttp.Server) *fastHTTP {
	conns := newConnections()
	server.ConnState = conns.note
	return &fastHTTP{server: server, conns: conns}
}

// fastHTTPHandler looks up the route in a map, since fasthttp has no router.
func fastHTTPHandler(s *site) fasthttp.RequestHandler {
	byPath := make(map[string]*Route, len(s.routes))
	for i := range s.routes {
		byPath[s.routes[i].Path] = &s.routes[i]
	}
	echo := echoFastHTTP(s.streams)
	return func(c *fasthttp.RequestCtx) {
		r, ok := byPath[string(c.Path())] // a conversion for a map lookup does not allocate
		switch {
		case !ok && s.keys != nil && fastHTTPKeyValue(s, c):
			return
		case !ok && string(c.Path()) == webSocketPath && c.IsGet():
			echo(c)
			return
		case !ok:
			c.Error(fasthttp.StatusMessage(fasthttp.StatusNotFound), fasthttp.StatusNotFound)
			return
		case r.Writes && !c.IsPost(), !r.Writes && !c.IsGet() && !c.IsHead():
			c.Error(fasthttp.StatusMessage(fasthttp.StatusMethodNotAllowed), fasthttp.StatusMethodNotAllowed)
			c.Response.Header.Set(fasthttp.HeaderAllow, r.allow())
			return
		}
		c.Response.Header.SetContentType(r.ContentType)
		if r.ContentEncoding != "" {
			c.Response.Header.SetContentEncoding(r.ContentEncoding)
		}
		body, status := s.respond(r)
		c.Response.SetStatusCode(status)
		c.Response.SetBodyRaw(body)
	}
}

// fastHTTPKeyValue serves the paths of the bucket, and reports whether this is one.
func fastHTTPKeyValue(s *site, c *fasthttp.RequestCtx) bool {
	key, ok := keyOf(string(c.Path()))
	if !ok {
		return false
	}
	a := s.keys.Answer(&backend.KeyRequest{
		Method: string(c.Method()), Key: key, Read: string(c.QueryArgs().Peek("read")), Match: string(c.Request.Header.Peek("If-Match")),
		NoMatch: string(c.Request.Header.Peek("If-None-Match")), Body: c.PostBody(),
	})
	c.Response.Header.SetContentType(typeJSON)
	if a.Allow != "" {
		c.Response.Header.Set(fasthttp.HeaderAllow, a.Allow)
	}
	c.Response.SetStatusCode(a.Status)
	c.Response.SetBodyRaw(a.Body)
	return true
}

func (f *fastHTTP) serve(ln net.Listener) error { return f.server.Serve(ln) }

// stop needs the second step because ShutdownWithContext cannot force: when ctx ends it leaves
// the connections being served open (a connection that has not sent anything counts as idle only
// after 5 s). Its result does not matter then.
func (f *fastHTTP) stop(ctx context.Context) {
	_ = f.server.ShutdownWithContext(ctx)
	f.conns.closeAll()
}

// connections are the open connections of a fasthttp server. The server calls note at the start
// and the end of a connection, and twice per request, which returns at once; only a start and an
// end take the lock.
type connections struct {
	mu      sync.Mutex
	changed sync.Cond // on mu: a connection has ended
	open    map[net.Conn]struct{}
	closing bool
}

func newConnections() *connections {
	c := &connections{open: map[net.Conn]struct{}{}}
	c.changed.L = &c.mu
	return c
}

func (c *connections) note(conn net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateNew:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[conn] = struct{}{}
		if c.closing { // accepted just before the listener was closed
			expire(conn)
		}
	case fasthttp.StateClosed, fasthttp.StateHijacked: // the second is a WebSocket, which ends with the site
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, conn)
		c.changed.Signal()
	}
}

// closeAll makes the server close its connections, and waits until it has.
func (c *connections) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	for conn := range c.open {
		expire(conn)
	}
	for len(c.open) > 0 {
		c.changed.Wait()
	}
}

// expire ends the server's current and later waits on conn, so that it closes it. If we closed it
// ourselves, the server would log an error for each.
func expire(conn net.Conn) {
	_ = conn.SetDeadline(time.Unix(1, 0)) // fails if closed already
}
