package baseline

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// newHTTPUtil is ReverseProxy with what it is slow without: enough idle connections,
// no compression of its own, and buffers that are used again.
func newHTTPUtil(c *Config, log *accessLog) *http.Server {
	if c.Files != "" {
		return &http.Server{Handler: http.FileServer(http.Dir(c.Files))}
	}
	target := &url.URL{Scheme: "http", Host: c.Backend}
	p := &httputil.ReverseProxy{
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
	if log != nil {
		p.ModifyResponse = func(res *http.Response) error {
			r := res.Request
			client, _, err := net.SplitHostPort(r.RemoteAddr)
			log.add(&entry{
				client: []byte(client), method: []byte(r.Method), target: []byte(r.RequestURI), protocol: []byte(r.Proto),
				referer: []byte(r.Referer()), agent: []byte(r.UserAgent()), status: res.StatusCode, bytes: res.ContentLength,
			})
			return err
		}
	}
	return &http.Server{Handler: p}
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
