// Package browser is chromedp for tests: Debian's chromium, which reaches only the loopback. Any error fails the test.
package browser

import (
	"context"
	_ "embed" // axe-core 4.14.1 (MPL-2.0, licence included) is only ever part of a test binary
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed testdata/axe-core/axe.min.js
var axe string

//go:embed testdata/violations.js
var violations string

// Page is one tab, and its context for chromedp. Errors, and Requests as in "Document http://…", have what came before an Eval.
type Page struct {
	context.Context
	t                testing.TB
	Errors, Requests chan string
}

// Start starts a browser that ends with the test. What it returns opens a tab of 1280 × 900 CSS pixels in light colours.
func Start(t testing.TB) func() *Page {
	parent, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-features", "Translate,MediaRouter,DialMediaRouteProvider"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE [::1]"))...)
	t.Cleanup(stop)
	open := func(options ...chromedp.ContextOption) *Page {
		p := &Page{t: t, Errors: make(chan string, 10000), Requests: make(chan string, 10000)}
		p.Context, _ = chromedp.NewContext(parent, append(options, chromedp.WithListener(p.note))...) // it ends with the browser
		p.SetViewport(1280, 900, 1, false)
		p.SetMedia("", false)
		return p
	}
	parent = open()
	return func() *Page { return open(chromedp.WithNewBrowserContext()) }
}

func (p *Page) note(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.Requests <- string(e.Type) + " " + e.Request.URL
	case *runtime.EventExceptionThrown, *runtime.EventConsoleAPICalled:
		text, _ := json.Marshal(e) // it came as JSON
		p.Errors <- string(text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			p.Errors <- e.Entry.Text + " " + e.Entry.URL
		}
	}
}

func Run[T any](p *Page, action chromedp.Action[T]) T {
	p.t.Helper()
	v, err := chromedp.Run(p, action)
	if err != nil {
		p.t.Fatalf("browser: %v", err)
	}
	return v
}

// Eval stores the value of an expression, or of its promise, in out, which may be nil.
func (p *Page) Eval(expression string, out any) {
	p.t.Helper()
	v := Run(p, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	if out != nil && json.Unmarshal(v, out) != nil {
		p.t.Fatalf("browser: %.200s is %s", expression, v)
	}
}

// Open waits until a page is loaded, Wait until an expression is true. Violations are axe-core's findings, Text is visible text.
func (p *Page) Open(url string)             { p.t.Helper(); Run(p, chromedp.Navigate(url)) }
func (p *Page) Wait(expression string)      { p.t.Helper(); p.Eval(fmt.Sprintf(until, expression), nil) }
func (p *Page) Violations() (list []string) { p.t.Helper(); p.Eval(axe+violations, &list); return list }
func (p *Page) Text(css string) (s string)  { p.t.Helper(); p.Eval(innerText(css), &s); return s }
func innerText(css string) string           { return fmt.Sprintf("document.querySelector(%q).innerText", css) }

const until = "new Promise((yes, no) => { setTimeout(no, 120000, 'never'); const f = () => (%s) ? yes() : setTimeout(f, 20); f() })"

// Call sends a command of the DevTools protocol. On a phone there are touch and the viewport of the meta element.
func (p *Page) Call(method string, in any) {
	Run(p, func(c context.Context, t *chromedp.Target) (v any, e error) { return v, t.Call(c, method, in, nil) })
}
func (p *Page) SetMedia(medium string, dark bool) {
	p.Call("Emulation.setEmulatedMedia", map[string]any{"media": medium, "features": []map[string]string{
		{"name": "prefers-color-scheme", "value": map[bool]string{true: "dark", false: "light"}[dark]}, {"name": "prefers-reduced-motion", "value": "reduce"}}})
}
func (p *Page) SetViewport(width, height int, scale float64, phone bool) {
	p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone})
	p.Call("Emulation.setTouchEmulationEnabled", map[string]any{"enabled": phone})
}
