// Package baseline has two minimal reverse proxies to race against: one on fasthttp,
// one on httputil.ReverseProxy. They do what the race asks for and no more, with
// the settings that make them fast.
package baseline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Config says what a baseline does. Backend or Files is given.
type Config struct {
	// Addr to listen at; port 0 is a free one.
	Addr string
	// Backend is host:port of the server that gets every request.
	Backend string
	// Files is a directory that is served instead.
	Files string
	// Forward adds X-Forwarded-For, -Proto and -Host.
	Forward bool
	// Log is a file for access lines of what the backend answered, in the combined format; "" none.
	Log string
	// Ready, if not nil, is told the real address once connections are accepted.
	Ready func(addr string)
}

// ErrUnknown marks a name that is none of the baselines.
var ErrUnknown = errors.New("unknown baseline")

// Kinds are the names of the baselines.
func Kinds() []string { return []string{"fasthttp", "httputil"} }

// Serve runs a baseline until ctx ends. Requests in progress then are cut off: a race ends it when it
// has all of its answers.
func Serve(ctx context.Context, kind string, c Config) (err error) {
	if !slices.Contains(Kinds(), kind) {
		return fmt.Errorf("%w %q: there are %s", ErrUnknown, kind, strings.Join(Kinds(), ", "))
	}
	if (c.Backend == "") == (c.Files == "") {
		return errors.New("baseline: give either a backend or a directory of files")
	}
	log, err := openLog(c.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	var server interface{ Serve(ln net.Listener) error } = newHTTPUtil(&c, log)
	if kind == "fasthttp" {
		server = newFastHTTP(&c, log)
	}
	ln, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })() // Serve ends with it, and says so
	if c.Ready != nil {
		c.Ready(ln.Addr().String())
	}
	if err = server.Serve(ln); ctx.Err() != nil {
		return nil
	}
	return err
}

func newFastHTTP(c *Config, log *accessLog) *fasthttp.Server {
	handler := fastProxy(c, log)
	if c.Files != "" {
		handler = fasthttp.FSHandler(c.Files, 0)
	}
	return &fasthttp.Server{
		Handler: handler, NoDefaultServerHeader: true, NoDefaultDate: c.Files == "", NoDefaultContentType: true,
		DisableHeaderNamesNormalizing: true,
	}
}

// fastProxy passes every request on, on connections that are kept.
func fastProxy(c *Config, log *accessLog) fasthttp.RequestHandler {
	client := &fasthttp.HostClient{
		Addr: c.Backend, MaxConns: 4096, MaxIdleConnDuration: time.Minute, NoDefaultUserAgentHeader: true,
		DisablePathNormalizing: true, DisableHeaderNamesNormalizing: true,
	}
	return func(ctx *fasthttp.RequestCtx) {
		h := &ctx.Request.Header
		ctx.Request.UseHostHeader = true
		h.DisableNormalizing()
		h.Del("Connection")
		if c.Forward {
			h.Set("X-Forwarded-For", ctx.RemoteIP().String())
			h.Set("X-Forwarded-Proto", "http")
			h.SetBytesV("X-Forwarded-Host", h.Host())
		}
		if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error("bad gateway", fasthttp.StatusBadGateway)
			return
		}
		ctx.Response.Header.Del("Connection")
		if log != nil {
			log.add(&entry{
				client: []byte(ctx.RemoteIP().String()), method: h.Method(), target: h.RequestURI(), protocol: h.Protocol(),
				referer: h.Referer(), agent: h.UserAgent(), status: ctx.Response.StatusCode(), bytes: int64(len(ctx.Response.Body())),
			})
		}
	}
}

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
