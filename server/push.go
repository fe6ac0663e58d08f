package server

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
	fastws "github.com/fasthttp/websocket"
	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"ceiling/server/publish"
)

// The routes of push are not answers but streams, so each framework has a handler of its own for them. What they send is
// made once for all subscribers, by publish, which counts it too.
const (
	eventsPath    = "/events"
	webSocketPath = "/ws"
	pushStatus    = "/push/status"

	typeEvents = "text/event-stream"
)

// PushRoutes returns the routes that a server with --push has besides.
func PushRoutes() []Route {
	return []Route{
		{Path: eventsPath, About: "server-sent events, the same for every subscriber, with number and time", ContentType: typeEvents},
		{Path: webSocketPath, About: "WebSocket that answers every message with itself"},
		{Path: pushStatus, About: "events published, delivered and dropped; messages received and sent", ContentType: typeJSON,
			status: (*publish.Hub).StatusJSON},
	}
}

// startPush starts to publish as the options say, "" does nothing, and gives s the route that tells of it. The two that
// stream are mounted by the frameworks.
func (s *site) startPush(options string) error {
	if options == "" {
		return nil
	}
	o, err := publish.Parse(options)
	if err != nil {
		return err
	}
	s.hub = publish.Start(o)
	for _, r := range PushRoutes() {
		if r.status != nil {
			s.routes = append(s.routes, r)
		}
	}
	return nil
}

// messageMost is the largest message that /ws takes, in bytes.
const messageMost = 1 << 20

// eventsNetHTTP answers a subscriber until it has gone.
func eventsNetHTTP(h *publish.Hub) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", typeEvents)
		w.Header().Set("Cache-Control", "no-store")
		if q.Method == http.MethodHead {
			return
		}
		flush := http.NewResponseController(w)
		if flush.Flush() != nil {
			return
		}
		h.Serve(q.Context().Done(), func(b []byte) error {
			if _, err := w.Write(b); err != nil {
				return err
			}
			return flush.Flush()
		})
	}
}

// echoNetHTTP answers every message of a WebSocket with itself.
func echoNetHTTP(h *publish.Hub) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		c, err := websocket.Accept(w, q, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return // Accept has answered
		}
		c.SetReadLimit(messageMost)
		for {
			kind, message, err := c.Read(h.Context())
			if err != nil {
				_ = c.CloseNow() // it fails for one that is closed
				return
			}
			h.Received()
			if c.Write(h.Context(), kind, message) == nil {
				h.Sent()
			}
		}
	}
}

// eventsFastHTTP does the same on fasthttp.
func eventsFastHTTP(h *publish.Hub) fasthttp.RequestHandler {
	return func(c *fasthttp.RequestCtx) {
		c.Response.Header.SetContentType(typeEvents)
		c.Response.Header.Set("Cache-Control", "no-store")
		c.SetBodyStreamWriter(func(w *bufio.Writer) {
			if w.Flush() != nil {
				return
			}
			h.Serve(nil, func(b []byte) error {
				if _, err := w.Write(b); err != nil {
					return err
				}
				return w.Flush()
			})
		})
	}
}

func echoFastHTTP(h *publish.Hub) fasthttp.RequestHandler {
	upgrader := fastws.FastHTTPUpgrader{CheckOrigin: func(*fasthttp.RequestCtx) bool { return true }}
	return func(c *fasthttp.RequestCtx) {
		_ = upgrader.Upgrade(c, func(c *fastws.Conn) { // it answers where it fails
			// fasthttp closes the connection when this returns; Close would do nothing before.
			defer h.Closing(func() error { return c.NetConn().SetDeadline(time.Unix(1, 0)) })()
			c.SetReadLimit(messageMost)
			for {
				kind, message, err := c.ReadMessage()
				if err != nil {
					return
				}
				h.Received()
				if c.WriteMessage(kind, message) == nil {
					h.Sent()
				}
			}
		})
	}
}

// pushFiber has fiber's routes go to the handlers of fasthttp, which it stands on.
func pushFiber(app *fiber.App, h *publish.Hub) {
	for path, handle := range map[string]fasthttp.RequestHandler{eventsPath: eventsFastHTTP(h), webSocketPath: echoFastHTTP(h)} {
		app.Get(path, func(c fiber.Ctx) error {
			handle(c.RequestCtx())
			return nil
		})
	}
}

// PushStandard is what --push own stands for.
func PushStandard() string {
	o := publish.Standard()
	return fmt.Sprintf("rate=%s,size=%d,slow=%s,queue=%d", strconv.FormatFloat(o.PerS, 'f', -1, 64), o.Size, o.Slow, o.Queue)
}
