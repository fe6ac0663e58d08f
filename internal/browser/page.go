package browser

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// Page is one tab with its own cookies and storage.
type Page struct {
	t       testing.TB
	conn    *conn
	session string
	log     log
}

// Page opens an empty tab of 1280 × 900 CSS pixels in light colours.
func (b *Browser) Page() *Page {
	b.t.Helper()
	p := &Page{t: b.t, conn: b.conn}
	p.log.loads = make(chan string, 64)
	var context struct {
		ID string `json:"browserContextId"`
	}
	p.check(b.conn.call("", "Target.createBrowserContext", nil, &context))
	var target struct {
		ID string `json:"targetId"`
	}
	p.check(b.conn.call("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": context.ID}, &target))
	var attached struct {
		Session string `json:"sessionId"`
	}
	p.check(b.conn.call("", "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached))
	p.session = attached.Session
	b.conn.listen(p.session, p.log.take)
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", nil, nil)
	}
	p.call("Page.setLifecycleEventsEnabled", map[string]any{"enabled": true}, nil)
	p.SetViewport(1280, 900, 1, false)
	p.SetDark(false)
	return p
}

func (p *Page) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("browser: %v", err)
	}
}

func (p *Page) call(method string, params map[string]any, out any) {
	p.t.Helper()
	p.check(p.conn.call(p.session, method, params, out))
}

// Open navigates to a URL (file:///…, http://127.0.0.1:…) and waits until everything is loaded.
func (p *Page) Open(url string) {
	p.t.Helper()
	for len(p.log.loads) > 0 {
		<-p.log.loads
	}
	var went struct {
		Loader string `json:"loaderId"`
		Error  string `json:"errorText"`
	}
	p.call("Page.navigate", map[string]any{"url": url}, &went)
	if went.Error != "" {
		p.t.Fatalf("browser: open %s: %s", url, went.Error)
	}
	if went.Loader == "" {
		return // an anchor in the same page
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case loaded := <-p.log.loads:
			if loaded == went.Loader {
				return
			}
		case <-p.conn.gone:
			p.t.Fatalf("browser: open %s: the browser has ended", url)
		case <-timeout.C:
			p.t.Fatalf("browser: open %s: not loaded after %s", url, patience)
		}
	}
}

// Eval evaluates an expression in the page and stores its value in out, which may be nil, as
// encoding/json does. It awaits a promise. An exception fails the test.
func (p *Page) Eval(expression string, out any) {
	p.t.Helper()
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Thrown *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string          `json:"description"`
				Value       json.RawMessage `json:"value"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true},
		&answer)
	if answer.Thrown != nil {
		p.t.Fatalf("browser: eval %.200s: %s %s %s", expression, answer.Thrown.Text, answer.Thrown.Exception.Description,
			answer.Thrown.Exception.Value)
	}
	if out == nil {
		return
	}
	if answer.Result.Value == nil {
		p.t.Fatalf("browser: eval %.200s: no value", expression)
	}
	if err := json.Unmarshal(answer.Result.Value, out); err != nil {
		p.t.Fatalf("browser: eval %.200s: %v", expression, err)
	}
}

// Wait returns once an expression is true in the page, and fails the test after two minutes. The
// page evaluates it 50 times a second.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	var met bool
	p.Eval(fmt.Sprintf(`new Promise(done => {
		const end = performance.now() + %d;
		const look = () => {
			if (%s) return done(true);
			if (performance.now() > end) return done(false);
			setTimeout(look, 20);
		};
		look();
	})`, (patience-10*time.Second).Milliseconds(), expression), &met)
	if !met {
		p.t.Fatalf("browser: wait: %s did not come true", expression)
	}
}

// Text returns the visible text of the first element that a CSS selector matches.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	var text string
	p.Eval(fmt.Sprintf(`document.querySelector(%s).innerText`, quote(selector)), &text)
	return text
}

// Clipped returns the texts that are only visible by scrolling sideways: outside the window, or
// beyond the edge of an element that scrolls or clips. It ignores text for screen readers (class
// unseen) or visible on focus (class skip), the heads of tables shown as cards, collapsed
// content, pictures, and the link row at the top.
func (p *Page) Clipped() []string {
	p.t.Helper()
	var list []string
	p.Eval(`[...document.querySelectorAll("body *")].filter(e => {
		if (![...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.textContent.trim())) return false;
		if (e.closest(".unseen, .skip, .plot, .flame-map, svg, nav, script, style") || !e.checkVisibility()) return false;
		const box = e.getBoundingClientRect();
		if (box.width <= 1 || e.closest(".cards thead")) return false;
		for (let at = e; at !== document.body; at = at.parentElement) {
			const edge = at.getBoundingClientRect(), cuts = getComputedStyle(at).overflowX !== "visible";
			if (cuts && (box.right > edge.right + 1 || box.left < edge.left - 1 || at.scrollWidth > at.clientWidth + 1)) return true;
		}
		return box.right > innerWidth + 1 || box.left < -1;
	}).map(e => e.tagName.toLowerCase() + " in " + (e.closest("[id]")?.id ?? "the page") + ": " + e.textContent.trim().slice(0, 60))`, &list)
	return list
}

// Click clicks the first element that a CSS selector matches.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf(`document.querySelector(%s).click()`, quote(selector)), nil)
}

// Key presses and releases a key by its DOM name: "Tab", "Enter", "ArrowRight".
func (p *Page) Key(name string) {
	p.t.Helper()
	code := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36,
		"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[name]
	if code == 0 {
		p.t.Fatalf("browser: no code is known for the key %q", name)
	}
	down := map[string]any{"type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": code}
	switch name {
	case "Enter":
		down["text"] = "\r"
	case " ":
		down["text"], down["code"] = " ", "Space"
	}
	p.call("Input.dispatchKeyEvent", down, nil)
	p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name, "code": down["code"], "windowsVirtualKeyCode": code}, nil)
}

// SetViewport sets the size in CSS pixels, the device pixel ratio, and whether it is a phone:
// touch, and the viewport of its meta element.
func (p *Page) SetViewport(width, height int, scale float64, phone bool) {
	p.t.Helper()
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone},
		nil)
	p.call("Emulation.setTouchEmulationEnabled", map[string]any{"enabled": phone}, nil)
}

// SetDark sets prefers-color-scheme, and requests reduced motion.
func (p *Page) SetDark(dark bool) {
	p.t.Helper()
	p.media("", map[bool]string{true: "dark", false: "light"}[dark])
}

// SetPrint shows the page as printed, or on screen in light colours.
func (p *Page) SetPrint(print bool) {
	p.t.Helper()
	p.media(map[bool]string{true: "print", false: ""}[print], "light")
}

func (p *Page) media(medium, scheme string) {
	p.call("Emulation.setEmulatedMedia", map[string]any{"media": medium, "features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
}

// SetScript enables or disables script on pages opened from now on. Eval works either way.
func (p *Page) SetScript(run bool) {
	p.t.Helper()
	p.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": !run}, nil)
}

// Screenshot returns a PNG of the viewport, or of the whole page.
func (p *Page) Screenshot(whole bool) []byte {
	p.t.Helper()
	return p.data("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": whole})
}

// PDF prints the page on A4 with its background.
func (p *Page) PDF() []byte {
	p.t.Helper()
	return p.data("Page.printToPDF", map[string]any{"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": true,
		"preferCSSPageSize": true})
}

func (p *Page) data(method string, params map[string]any) []byte {
	p.t.Helper()
	var answer struct {
		Data string `json:"data"`
	}
	p.call(method, params, &answer)
	data, err := base64.StdEncoding.DecodeString(answer.Data)
	p.check(err)
	return data
}

// quote converts a Go string to a JavaScript string.
func quote(s string) string {
	text, _ := json.Marshal(s) // a string cannot fail
	return string(text)
}
