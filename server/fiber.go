package server

import (
	"context"
	"net"

	"ceiling/server/backend"

	"github.com/gofiber/fiber/v3"
)

// fiberApp is a fiber application with default settings, except that its routing matches paths
// exactly, as the other routers do. It stops like the fasthttp server underneath.
type fiberApp struct {
	app  *fiber.App
	fast *fastHTTP
}

func mountFiber(s *site) engine {
	app := fiber.New(fiber.Config{CaseSensitive: true, StrictRouting: true})
	for i := range s.routes {
		r := &s.routes[i]
		if r.Writes {
			app.Post(r.Path, fiberHandler(s, r))
		} else {
			app.Get(r.Path, fiberHandler(s, r)) // fiber adds the route for HEAD
		}
	}
	if s.keys != nil {
		app.All(kvPath, fiberKeyValue(s))
		app.All(kvPath+"/:key", fiberKeyValue(s))
	}
	echo := echoFastHTTP(s.streams)
	app.Get(webSocketPath, func(c fiber.Ctx) error {
		echo(c.RequestCtx())
		return nil
	})
	app.Server().CloseOnShutdown = true
	return &fiberApp{app: app, fast: newFastHTTP(app.Server())}
}

func fiberHandler(s *site, r *Route) fiber.Handler {
	return func(c fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, r.ContentType)
		if r.ContentEncoding != "" {
			c.Set(fiber.HeaderContentEncoding, r.ContentEncoding)
		}
		body, status := s.respond(r)
		return c.Status(status).Send(body)
	}
}

// fiberKeyValue serves the paths of the bucket.
func fiberKeyValue(s *site) fiber.Handler {
	return func(c fiber.Ctx) error {
		key, _ := keyOf(string(c.Request().URI().Path())) // decoded, as in the other frameworks
		a := s.keys.Answer(&backend.KeyRequest{
			Method: c.Method(), Key: key, Read: c.Query("read"), Match: c.Get(fiber.HeaderIfMatch),
			NoMatch: c.Get(fiber.HeaderIfNoneMatch), Body: c.Body(),
		})
		c.Set(fiber.HeaderContentType, typeJSON)
		if a.Allow != "" {
			c.Set(fiber.HeaderAllow, a.Allow)
		}
		return c.Status(a.Status).Send(a.Body)
	}
}

func (f *fiberApp) serve(ln net.Listener) error {
	return f.app.Listener(ln, fiber.ListenConfig{DisableStartupMessage: true})
}

func (f *fiberApp) stop(ctx context.Context) { f.fast.stop(ctx) }
