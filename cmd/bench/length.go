package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// requestLength returns the length in bytes of the tool's requests for /simple: it captures one
// and stops the tool. The server's address has as many digits as any other here: free ports have
// five. Others may come earlier, and on the same connection: ceiling checks whether the server offers profiles.
func requestLength(ctx context.Context, t *tool) (int, error) {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	var length atomic.Int64
	type key struct{}
	s := &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, c) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n := r.Context().Value(key{}).(*counted).read.Swap(0); r.URL.Path == "/simple" && length.CompareAndSwap(0, n) {
				cancel()
			}
			_, _ = w.Write([]byte(`{"message":"hi"}`)) // the tool may have been stopped
		}),
	}
	go func() { _ = s.Serve(counting{l}) }() // until it is closed
	_, err = t.run(limited, job{URL: "http://" + l.Addr().String() + "/simple", Connections: 1, Pipelining: 1, Duration: time.Second})
	if length.Load() == 0 {
		return 0, errors.Join(errors.New("no request was seen"), err, s.Close())
	}
	return int(length.Load()), s.Close() // the tool's error only says that it was stopped early
}

// counting counts what is read from each connection.
type counting struct{ net.Listener }

type counted struct {
	net.Conn
	read atomic.Int64 // bytes since the last request
}

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &counted{Conn: c}, err
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}
