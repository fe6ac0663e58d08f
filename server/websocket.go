package server

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"
	fastws "github.com/fasthttp/websocket"
	"github.com/valyala/fasthttp"
)

// webSocketPath answers every WebSocket message with itself, on each framework by a handler of its
// own: it is a stream, not a single response.
const webSocketPath = "/ws"

// messageMost is the largest message accepted by /ws, in bytes.
const messageMost = 1 << 20

// echoNetHTTP echoes messages until ctx ends.
func echoNetHTTP(ctx context.Context) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		c, err := websocket.Accept(w, q, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return // Accept has responded
		}
		c.SetReadLimit(messageMost)
		for {
			kind, message, err := c.Read(ctx)
			if err == nil {
				err = c.Write(ctx, kind, message)
			}
			if err != nil {
				_ = c.CloseNow() // fails if already closed
				return
			}
		}
	}
}

// echoFastHTTP does the same on fasthttp, and on fiber.
func echoFastHTTP(ctx context.Context) fasthttp.RequestHandler {
	upgrader := fastws.FastHTTPUpgrader{CheckOrigin: func(*fasthttp.RequestCtx) bool { return true }}
	return func(c *fasthttp.RequestCtx) {
		_ = upgrader.Upgrade(c, func(c *fastws.Conn) { // it responds on failure
			// fasthttp closes the connection when this returns; Close would have no effect
			// earlier.
			defer context.AfterFunc(ctx, func() { _ = c.NetConn().SetDeadline(time.Unix(1, 0)) })() // fails if already closed
			c.SetReadLimit(messageMost)
			for {
				kind, message, err := c.ReadMessage()
				if err != nil || c.WriteMessage(kind, message) != nil {
					return
				}
			}
		})
	}
}
