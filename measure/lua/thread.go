package lua

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"ceiling/measure/load"
)

// probeTime is how long a script may take before the run: to be read, for setup, init and its first
// request.
const probeTime = 10 * time.Second

// thread is one Lua, and what the script sees of it.
type thread struct {
	script  *Script
	vm      *lua.LState
	addr    string
	stopped bool
}

// newThread reads the script into a Lua of its own.
func (s *Script) newThread(ctx context.Context) (*thread, error) {
	t := &thread{script: s, vm: lua.NewState()}
	t.vm.SetContext(ctx)
	t.restrict()
	t.define()
	f, err := t.vm.Load(strings.NewReader(s.text), s.name)
	if err == nil {
		t.vm.Push(f)
		err = t.vm.PCall(0, lua.MultRet, nil)
	}
	if err != nil {
		return nil, s.failed(err)
	}
	return t, nil
}

// restrict takes away what a script may not do, and sends what it prints where it belongs.
func (t *thread) restrict() {
	t.vm.SetGlobal("print", t.vm.NewFunction(func(l *lua.LState) int {
		var words []string
		for i := range l.GetTop() {
			words = append(words, l.ToStringMeta(l.Get(i+1)).String())
		}
		fmt.Fprintln(t.script.options.Out, strings.Join(words, "\t"))
		return 0
	}))
	for module, names := range map[string][]string{"os": {"execute", "exit", "remove", "rename", "setenv"}, "io": {"popen"}} {
		table, ok := t.vm.GetGlobal(module).(*lua.LTable)
		if !ok {
			continue
		}
		for _, name := range names {
			table.RawSetString(name, t.vm.NewFunction(func(l *lua.LState) int {
				l.RaiseError("%s.%s is off: a script makes requests", module, name)
				return 0
			}))
		}
	}
}

// define makes the global wrk.
func (t *thread) define() {
	s, l := t.script, t.vm
	wrk := l.NewTable()
	path := s.url.RequestURI()
	for name, value := range map[string]string{"scheme": s.url.Scheme, "host": s.url.Hostname(), "method": "GET", "path": path} {
		wrk.RawSetString(name, lua.LString(value))
	}
	if port := s.url.Port(); port != "" {
		wrk.RawSetString("port", lua.LString(port))
	}
	headers := l.NewTable()
	for _, f := range s.options.Header {
		headers.RawSetString(f[0], lua.LString(f[1]))
	}
	wrk.RawSetString("headers", headers)
	wrk.RawSetString("format", l.NewFunction(func(l *lua.LState) int {
		l.Push(lua.LString(t.format(wrk, l.Get(1), l.Get(2), l.Get(3), l.Get(4))))
		return 1
	}))
	wrk.RawSetString("lookup", l.NewFunction(func(l *lua.LState) int {
		list, err := lookup(l.CheckString(1), l.CheckString(2))
		if err != nil {
			l.RaiseError("%s", err.Error())
		}
		out := l.NewTable()
		for _, a := range list {
			out.Append(t.address(a))
		}
		l.Push(out)
		return 1
	}))
	wrk.RawSetString("connect", l.NewFunction(func(l *lua.LState) int {
		a, ok := l.CheckUserData(1).Value.(string)
		l.Push(lua.LBool(ok && accepts(a)))
		return 1
	}))
	l.SetGlobal("wrk", wrk)
}

func (t *thread) wrk() *lua.LTable {
	table, ok := t.vm.GetGlobal("wrk").(*lua.LTable)
	if !ok {
		return t.vm.NewTable()
	}
	return table
}

// hostOf is the Host field of the URL's parts, which the script may have changed.
func hostOf(wrk *lua.LTable) string {
	host := wrk.RawGetString("host").String()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := wrk.RawGetString("port"); port != lua.LNil {
		host += ":" + port.String()
	}
	return host
}

// format is wrk.format: a request of what it is given, or of what the global wrk has.
func (t *thread) format(wrk *lua.LTable, method, path, headers, body lua.LValue) string {
	or := func(v lua.LValue, name string) lua.LValue {
		if v == lua.LNil {
			return wrk.RawGetString(name)
		}
		return v
	}
	fields, ok := or(headers, "headers").(*lua.LTable)
	if !ok {
		fields = t.vm.NewTable()
	}
	if fields.RawGetString("Host") == lua.LNil {
		host := lua.LValue(lua.LString(hostOf(wrk)))
		if own, ok := wrk.RawGetString("headers").(*lua.LTable); ok && own.RawGetString("Host") != lua.LNil {
			host = own.RawGetString("Host")
		}
		fields.RawSetString("Host", host)
	}
	text := ""
	fields.RawSetString("Content-Length", lua.LNil)
	if b := or(body, "body"); b != lua.LNil {
		text = b.String()
		fields.RawSetString("Content-Length", lua.LNumber(len(text)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", or(method, "method"), or(path, "path"))
	for name, value := fields.Next(lua.LNil); name != lua.LNil; name, value = fields.Next(name) { // in the order in which they were set
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	return b.String() + "\r\n" + text
}

// lookup is the addresses of a host and a service, its name or its port.
func lookup(host, service string) ([]string, error) {
	port, err := net.LookupPort("tcp", service)
	if err != nil {
		return nil, err
	}
	ips, err := net.LookupHost(host)
	if err != nil {
		return nil, err
	}
	list := make([]string, 0, len(ips))
	for _, ip := range ips {
		list = append(list, net.JoinHostPort(ip, strconv.Itoa(port)))
	}
	return list, nil
}

// accepts reports whether an address takes connections.
func accepts(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close() // a probe
	return true
}

// function returns a global function that the script defines; nil if it does not.
func (t *thread) function(name string) *lua.LFunction {
	f, ok := t.vm.GetGlobal(name).(*lua.LFunction)
	if !ok {
		return nil
	}
	return f
}

// isConstant reports whether a function only reads and returns what is there, so that it returns the
// same as long as nobody else writes. One that the script does not define is wrk's own, which does.
func (t *thread) isConstant(name string) bool {
	f := t.function(name)
	if f == nil {
		return true
	}
	reads := []int{lua.OP_MOVE, lua.OP_MOVEN, lua.OP_LOADK, lua.OP_LOADBOOL, lua.OP_LOADNIL, lua.OP_GETUPVAL, lua.OP_GETGLOBAL,
		lua.OP_GETTABLE, lua.OP_GETTABLEKS, lua.OP_CONCAT, lua.OP_RETURN, lua.OP_NOP}
	writes := func(instruction uint32) bool { return !slices.Contains(reads, int(instruction>>26)) }
	return f.Proto != nil && !slices.ContainsFunc(f.Proto.Code, writes)
}

// call calls a global function, if there is one, for its effect.
func (t *thread) call(name string, args ...lua.LValue) error {
	f := t.function(name)
	if f == nil {
		return nil
	}
	if err := t.vm.CallByParam(lua.P{Fn: f, Protect: true}, args...); err != nil {
		return t.script.failed(err)
	}
	return nil
}

// result calls a function for one value.
func (t *thread) result(f *lua.LFunction) (lua.LValue, error) {
	if err := t.vm.CallByParam(lua.P{Fn: f, NRet: 1, Protect: true}); err != nil {
		return nil, t.script.failed(err)
	}
	v := t.vm.Get(-1)
	t.vm.Pop(1)
	return v, nil
}

// request is what the script's request returns, or wrk's own.
func (t *thread) request() (string, error) {
	f := t.function("request")
	if f == nil {
		f, _ = t.wrk().RawGetString("request").(*lua.LFunction)
	}
	v, err := t.result(f)
	if err != nil {
		return "", err
	}
	if v.Type() != lua.LTString {
		return "", fmt.Errorf("%s: request() returned a %s; it has to return a request, as wrk.format makes one", t.script.name, v.Type())
	}
	return v.String(), nil
}

// compose makes the next requests, of one call.
func (t *thread) compose(delays bool) ([]load.Composed, error) {
	var wait time.Duration
	if delays {
		v, err := t.result(t.function("delay"))
		if err != nil {
			return nil, err
		}
		if n, ok := v.(lua.LNumber); ok && n > 0 {
			wait = time.Duration(float64(n) * float64(time.Millisecond))
		}
	}
	text, err := t.request()
	if err != nil {
		return nil, err
	}
	list, err := split(text)
	if err != nil {
		return nil, fmt.Errorf("%s: request(): %w", t.script.name, err)
	}
	list[0].Delay = wait
	return list, nil
}

// respond hands a response to the script.
func (t *thread) respond(a load.Answer) error {
	status, head, body := a.Parts()
	headers := t.vm.NewTable()
	for _, line := range strings.Split(string(head), "\r\n")[1:] {
		name, value, _ := strings.Cut(line, ":")
		headers.RawSetString(name, lua.LString(strings.TrimSpace(value)))
	}
	return t.call("response", lua.LNumber(status), headers, lua.LString(body))
}

// address is a value that stands for an address.
func (t *thread) address(a string) *lua.LUserData {
	u := t.vm.NewUserData()
	u.Value = a
	meta := t.vm.NewTable()
	meta.RawSetString("__tostring", t.vm.NewFunction(func(l *lua.LState) int {
		l.Push(lua.LString(a))
		return 1
	}))
	u.Metatable = meta
	return u
}

// object is another thread, as this one sees it: addr, get, set, stop.
func (t *thread) object(other *thread) *lua.LUserData {
	l := t.vm
	u := l.NewUserData()
	u.Value = other
	meta := l.NewTable()
	meta.RawSetString("__index", l.NewFunction(func(l *lua.LState) int {
		switch l.CheckString(2) {
		case "addr":
			l.Push(t.address(other.addrOr()))
		case "get":
			l.Push(l.NewFunction(func(l *lua.LState) int {
				l.Push(passed(l, other.vm.GetGlobal(l.CheckString(2))))
				return 1
			}))
		case "set":
			l.Push(l.NewFunction(func(l *lua.LState) int {
				other.vm.SetGlobal(l.CheckString(2), passed(l, l.Get(3)))
				return 0
			}))
		case "stop":
			l.Push(l.NewFunction(func(*lua.LState) int {
				other.stopped = true
				return 0
			}))
		default:
			l.Push(lua.LNil)
		}
		return 1
	}))
	meta.RawSetString("__newindex", l.NewFunction(func(l *lua.LState) int {
		if a, ok := l.CheckUserData(3).Value.(string); ok && l.CheckString(2) == "addr" {
			other.addr = a
		}
		return 0
	}))
	u.Metatable = meta
	return u
}

func (t *thread) addrOr() string {
	if t.addr != "" {
		return t.addr
	}
	return t.script.address()
}

// passed is a value that goes from one Lua to another: nil, a boolean, a number or a string.
func passed(l *lua.LState, v lua.LValue) lua.LValue {
	switch v.Type() {
	case lua.LTNil, lua.LTBool, lua.LTNumber, lua.LTString:
		return v
	}
	l.RaiseError("a %s does not go from one thread to another", v.Type().String())
	return lua.LNil
}

var errNoRequest = errors.New("what it returned is not an HTTP/1.1 request; wrk.format makes one") // read-only

// split takes apart what one call returned: a script that pipelines returns several requests.
func split(text string) (list []load.Composed, err error) {
	for rest := []byte(text); len(rest) > 0; {
		head, body, found := bytes.Cut(rest, []byte("\r\n\r\n"))
		first, _, _ := bytes.Cut(head, []byte("\r\n"))
		words := bytes.Fields(first)
		switch version := len(words) - 1; {
		case !found || version < 2 || !bytes.HasPrefix(words[version], []byte("HTTP/1.")):
			return nil, errNoRequest
		case version > 2:
			return nil, fmt.Errorf("a path with a blank: %.100q; write %%20", bytes.Join(words[1:version], []byte(" ")))
		}
		n := 0
		for line := range bytes.SplitSeq(head, []byte("\r\n")) {
			if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
				if n, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || n < 0 || n > len(body) {
					return nil, errNoRequest
				}
			}
		}
		end := len(head) + 4 + n
		list = append(list, load.Composed{Bytes: rest[:end:end], NoBody: bytes.HasPrefix(first, []byte("HEAD "))})
		rest = rest[end:]
	}
	if len(list) == 0 {
		return nil, errNoRequest
	}
	return list, nil
}
