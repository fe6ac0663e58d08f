package baseline

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

type httpUtil struct{ server *http.Server }

func newHTTPUtil(c *Config, log *accessLog) server {
	var handler http.Handler = httpProxy(c)
	if c.Files != "" {
		handler = http.FileServer(http.Dir(c.Files))
	}
	if log != nil {
		handler = httpLogged(handler, log)
	}
	return &httpUtil{&http.Server{Handler: handler}}
}

func (h *httpUtil) serve(ln net.Listener) error {
	if err := h.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (h *httpUtil) shut(ctx context.Context) error {
	if err := h.server.Shutdown(ctx); err != nil {
		return h.server.Close()
	}
	return nil
}

// httpProxy is ReverseProxy with what it is slow without: enough idle connections,
// no compression of its own, and buffers that are used again.
func httpProxy(c *Config) *httputil.ReverseProxy {
	target := &url.URL{Scheme: "http", Host: c.Backend}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			if c.Forward {
				r.SetXForwarded()
			}
		},
		Transport: &http.Transport{
			MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, IdleConnTimeout: time.Minute, DisableCompression: true,
		},
		BufferPool: &buffers{},
	}
}

// buffers is a pool of what bodies are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

func httpLogged(next http.Handler, log *accessLog) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted := &counting{ResponseWriter: w}
		next.ServeHTTP(counted, r)
		client, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			client = r.RemoteAddr
		}
		log.add(&entry{
			client: []byte(client), method: []byte(r.Method), target: []byte(r.RequestURI), protocol: []byte(r.Proto),
			referer: []byte(r.Referer()), agent: []byte(r.UserAgent()), status: counted.status, bytes: counted.bytes,
		})
	})
}

// counting notes what an answer came to.
type counting struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (c *counting) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController find what is beneath.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }
