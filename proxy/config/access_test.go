package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAccessErrors(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "users"), "# of the site\nalice:$2y$05$abcdefghijklmnopqrstuuUQxJ0m7yWj9D3ZkJb9p3m4o1o8rT0Gm\nbob:$apr1$x$y\n")
	put(t, filepath.Join(dir, "marked"), "\ufeffbob:$apr1$x$y\n")
	put(t, filepath.Join(dir, "big.html"), strings.Repeat("x", maxPage+1))
	for text, want := range map[string]string{
		`access = { allow = ["10.0.0.0/33"] }`:                                                 `x.toml:2: allow: invalid address or network "10.0.0.0/33"`,
		`access = { deny = ["everybody"] }`:                                                    `x.toml:2: deny: invalid address or network "everybody"`,
		`access = { basic_auth = {} }`:                                                         "x.toml:2: basic_auth: it has no users",
		`access = { basic_auth = { users = { alice = "plain" } } }`:                            `x.toml:2: basic_auth: user "alice": the password is not a bcrypt hash`,
		`access = { basic_auth = { file = "users" } }`:                                         "/users:3: user \"bob\": the password is not a bcrypt hash",
		`access = { basic_auth = { file = "marked" } }`:                                        "/marked:1: user \"bob\": the password",
		`access = { basic_auth = { file = "none" } }`:                                          "no such file",
		`access = { basic_auth = { realm = "\"", file = "users" } }`:                           "basic_auth: realm",
		`access = { forward_auth = { uri = "auth:9091" } }`:                                    `forward_auth: uri "auth:9091"`,
		`access = { forward_auth = { uri = "http://a", copy_headers = ["a b"] } }`:             `copy_headers: invalid name "a b"`,
		`access = { cors = {} }`:                                                               "cors: origins are needed",
		`access = { cors = { origins = ["app.example"] } }`:                                    `cors: origin "app.example"`,
		`access = { cors = { origins = ["https://a/"] } }`:                                     `cors: origin "https://a/"`,
		`access = { cors = { origins = ["*"], credentials = true } }`:                          "browsers send no credentials where every origin is allowed",
		`respond = { status = 99 }`:                                                            "respond: status 99",
		`respond = { status = 204, body = "x" }`:                                               "respond: a response with status 204 has no body",
		`respond = { body = "x", file = "users" }`:                                             "respond: body and file exclude each other",
		`respond = { file = "big.html" }`:                                                      "a file of at most 1024 KiB is needed",
		"respond = { }\nredirect = { to = \"https://a/\" }":                                    "has both redirect and respond",
		`balance = "sticky"` + "\n" + `key = "client"`:                                         "a sticky balance needs cookie:NAME",
		`error_pages = { 404 = "users" }`:                                                      "unknown key",
		`destinations = [{ uri = "files:///tmp?missing=next" }]`:                               "missing=next needs another destination",
		`destinations = [{ uri = "files:///tmp?missing=404" }]`:                                "missing=404; next is the only value",
		`destinations = [{ uri = "http://a" }, { uri = "files:///tmp?missing=next" }]`:         "files with missing=next come first",
		`destinations = [{ uri = "http://a", insecure = true }]`:                               "insecure has no use: the destination is not https://",
		`destinations = [{ uri = "https://a", server_name = "*.a" }]`:                          `server_name: invalid name "*.a"`,
		`destinations = [{ uri = "https://a", certificate = { pem = "none", key = "none" } }]`: "certificate: open none",
	} {
		if !strings.Contains(text, "destinations") && !strings.Contains(text, "respond") {
			text += "\ndestinations = [{ uri = \"http://127.0.0.1:1\" }]"
		}
		_, err := Parse(filepath.Join(dir, "x.toml"), []byte("[[locations]]\n"+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`error_pages = { "404" = "none" }`:  "no such file",
		`error_pages = { "200" = "users" }`: `error_pages: "200"; a status such as 404, or 4xx or 5xx`,
		`error_pages = { "3xx" = "users" }`: `error_pages: "3xx"`,
		"[log]\nrequest_id = \"a b\"":       "x.toml:2: request_id: invalid field name",
		"[limits]\nipv6_prefix = 129":       "x.toml:2: ipv6_prefix: 129",
	} {
		_, err := Parse(filepath.Join(dir, "x.toml"), []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("CEILING_PORT", "8081")
	t.Setenv("CEILING_EMPTY", "")
	t.Setenv("CEILING_QUOTE", "a\"b\nc")
	os.Unsetenv("CEILING_NONE")
	c, err := Parse("x.toml", []byte(`# ${CEILING_NONE}
listen = ["127.0.0.1:${CEILING_PORT}", "127.0.0.1:${CEILING_NONE:-8082}", "127.0.0.1:${CEILING_EMPTY:-8083}"]
workers = ${CEILING_NONE:-3}
[[locations]]
paths = ["~/a${2}$"]
respond = { body = "${CEILING_EMPTY}$HOME" }
`))
	if err != nil {
		t.Fatal(err)
	}
	if l := strings.Join(c.Listen, " "); l != "127.0.0.1:8081 127.0.0.1:8082 127.0.0.1:8083" || c.Workers != 3 {
		t.Errorf("%s, %d workers", l, c.Workers)
	}
	if b := c.Regions[0].Locations[0].Respond.Body; b != "$HOME" {
		t.Errorf("%q", b)
	}
	_, err = Parse("x.toml", []byte("workers = 1\nvia = \"${CEILING_NONE}\"\nadmin = \"${CEILING_QUOTE}\"\n"))
	want := "x.toml:2: the environment has no variable CEILING_NONE; set it, or write ${CEILING_NONE:-default}\n" +
		"x.toml:3: the variable CEILING_QUOTE has a quote, a backslash or a line end, which would change this file"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
