package planted

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// serveHalves writes every response in two parts, head and body, without TCP_NODELAY. The kernel
// holds the second until the first is acknowledged (Nagle, RFC 896), which the client delays by
// 40 ms, since it waits for the rest and has nothing to send (RFC 1122, 4.2.3.2).
func serveHalves(ctx context.Context, p *Params, ready func(string)) error {
	ln, err := listen(ctx, p.Addr, nil)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	ready(ln.Addr().String())
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.(*net.TCPConn).SetNoDelay(false); err != nil {
			return errors.Join(err, c.Close())
		}
		clients.Go(func() {
			end := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer end()
			halve(c)
			_ = c.Close() // a client that has disconnected needs no response
		})
	}
}

// halve serves one connection until it ends.
func halve(c net.Conn) {
	in := bufio.NewReader(c)
	head := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(answer))
	for {
		r, err := http.ReadRequest(in)
		if err != nil || r.Body.Close() != nil {
			return
		}
		for _, half := range [][]byte{head, []byte(answer)} {
			if _, err := c.Write(half); err != nil {
				return
			}
		}
	}
}
