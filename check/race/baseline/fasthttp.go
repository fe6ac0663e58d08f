package baseline

import (
	"time"

	"github.com/valyala/fasthttp"
)

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
