package planted

import (
	"context"
	"io"
	"net/http"

	"ceiling/internal/distance"
)

// serveFar receives uploads over HTTP/2 from a distance: p.Bytes may be in flight, per connection
// and per stream, and each direction takes p.Sleep. So a connection carries at most p.Bytes in
// 2×p.Sleep, regardless of other resources.
func serveFar(ctx context.Context, p *Params, ready func(string)) error {
	ln, err := listen(ctx, p.Addr, nil)
	if err != nil {
		return err
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{
		Protocols: protocols,
		HTTP2:     &http.HTTP2Config{MaxReceiveBufferPerConnection: p.Bytes, MaxReceiveBufferPerStream: p.Bytes},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return // the client has disconnected
			}
			ok(w)
		}),
	}
	return serveAs(ctx, s, distance.Listen(ln, p.Sleep), func() { ready(ln.Addr().String()) })
}
