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

// The push routes are streams, not single responses, so each framework has its own handler for
// them. Package publish creates their events once for all subscribers, and counts them.
const (
	eventsPath    = "/events"
	webSocketPath = "/ws"
	pushStatus    = "/push/status"

	typeEvents = "text/event-stream"
)

// PushRoutes returns the additional routes of a server with --push.
func PushRoutes() []Route {
	return []Route{
		{Path: eventsPath, About: "server-sent events, the same for every subscriber, with number and time", ContentType: typeEvents},
		{Path: webSocketPath, About: "WebSocket that answers every message with itself"},
		{Path: pushStatus, About: "events published, delivered and dropped; messages received and sent", ContentType: typeJSON,
			status: (*publish.Hub).StatusJSON},
	}
}

// startPush starts publishing according to the options ("" does nothing), and gives s the status
// route. The frameworks mount the two streaming routes.
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

// messageMost is the largest message accepted by /ws, in bytes.
const messageMost = 1 << 20

// eventsNetHTTP serves a subscriber until it disconnects.
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

// echoNetHTTP echoes every WebSocket message.
func echoNetHTTP(h *publish.Hub) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		c, err := websocket.Accept(w, q, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return // Accept has responded
		}
		c.SetReadLimit(messageMost)
		for {
			kind, message, err := c.Read(h.Context())
			if err != nil {
				_ = c.CloseNow() // fails if already closed
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
		_ = upgrader.Upgrade(c, func(c *fastws.Conn) { // it responds on failure
			// fasthttp closes the connection when this returns; Close would have no effect
			// earlier.
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

// pushFiber routes fiber's paths to the handlers of fasthttp underneath.
func pushFiber(app *fiber.App, h *publish.Hub) {
	for path, handle := range map[string]fasthttp.RequestHandler{eventsPath: eventsFastHTTP(h), webSocketPath: echoFastHTTP(h)} {
		app.Get(path, func(c fiber.Ctx) error {
			handle(c.RequestCtx())
			return nil
		})
	}
}

// PushStandard returns the options behind --push own.
func PushStandard() string {
	o := publish.Standard()
	return fmt.Sprintf("rate=%s,size=%d,slow=%s,queue=%d", strconv.FormatFloat(o.PerS, 'f', -1, 64), o.Size, o.Slow, o.Queue)
}
