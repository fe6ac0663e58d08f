package secret

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func hider(key string) *Hider { return New(func() []byte { return []byte(key) }) }

// ways are all that hide a text.
func ways(h *Hider) map[string]func(string) string {
	return map[string]func(string) string{
		"Value": h.Value, "URL": h.URL, "Text": h.Text, "Shell": h.Shell, "FieldLine": h.FieldLine, "Variable": h.Variable,
		"Field":   func(s string) string { return h.Field("X-Thing", s) },
		"Secret":  func(s string) string { return h.Field("Authorization", s) },
		"Command": func(s string) string { return strings.Join(h.Command(strings.Split(s, "\x00")), "\x00") },
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{
		"Authorization", "proxy-authorization", "Cookie", "Set-Cookie", "X-API-Key", "api_key", "apikey", "apiKey", "X-Auth-Token",
		"X-Amz-Security-Token",
		"access_token", "accessToken", "refresh-token", "id_token", "token", "PGPASSWORD", "DB_PASSWORD", "password", "passwd", "pwd",
		"client_secret",
		"X-Amz-Signature", "sig", "sid", "session", "SESSIONID", "X-CSRF-Token", "xsrf", "jwt", "key", "AWSAccessKeyId", "AWS_SECRET_ACCESS_KEY",
		"Ocp-Apim-Subscription-Key", "access%5Ftoken", "%61ccess_token", "GITHUB_TOKEN", "authtoken", "oauth2.token", "OAuth2", "password1",
		"PHPSESSID", "JSESSIONID", "X-CSRFToken", "connect.sid", "MYSQL_PWD", "X-Hub-Signature-256", "SECRET_KEY_BASE",
	} {
		if !isName(name) {
			t.Errorf("%s is not secret", name)
		}
	}
	for _, name := range []string{
		"", "Accept", "Content-Type", "User-Agent", "author", "authority", "monkey", "keyboard", "max_tokens", "tokens", "token-file",
		"--token-file", "PASSWORD_FILE",
		"token_type", "key_size", "id", "page", "q", "Host", "passenger", "compass", "GOMAXPROCS", "connections", "signal", "keep-secrets-dir",
	} {
		if isName(name) {
			t.Errorf("%s is secret", name)
		}
	}
}

// TestHides has what each way hides, with # for a hidden value.
func TestHides(t *testing.T) {
	check := func(way, text, want string) {
		t.Helper()
		got := ways(&Hider{})[way](text)
		if want = strings.ReplaceAll(want, "\x01", Word); got != want {
			t.Errorf("%s(%q)\n got %q\nwant %q", way, text, got, want)
		}
	}
	check("URL", "http://u:p@h:80/x?y=1", "http://\x01@h:80/x?y=1")
	check("URL", "u:p@h:80/x", "\x01@h:80/x")
	check("URL", "http://u:p w@h", "http://\x01@h")
	check("URL", "http://token@h", "http://\x01@h")
	check("URL", "http://a:p@ss@h/", "http://\x01@h/")
	check("URL", "http://h/x?a=1&access_token=abc&b=2", "http://h/x?a=1&access_token=\x01&b=2")
	check("URL", "h:8080/x?token=it's;a=1", "h:8080/x?token=\x01")
	check("URL", "unix:/run/x.sock:/p?api_key=1", "unix:/run/x.sock:/p?api_key=\x01")
	check("URL", "/read?id=1&max_tokens=5", "/read?id=1&max_tokens=5")
	check("URL", "/x?token=&y=2", "/x?token=&y=2")
	check("URL", "/x#id_token=abc", "/x#id_token=\x01")
	check("URL", "/x?access%5Ftoken=abc", "/x?access%5Ftoken=\x01")
	check("URL", "/x?next=http://h/?token=abc", "/x?next=http://h/?token=\x01")
	check("URL", "/x?next=http%3A%2F%2Fh%2F%3Ftoken%3Dabc%26a%3D1", "/x?next=http%3A%2F%2Fh%2F%3Ftoken%3D\x01%26a%3D1")
	check("URL", "http://h/a@b", "http://h/a@b")
	check("URL", "unix:@name:/x", "unix:@name:/x")
	check("Text", `cannot reach "http://u:p@h/x?token=abc": refused`, `cannot reach "http://`+"\x01@h/x?token=\x01"+`": refused`)
	check("Text", "no token: give --token-file FILE, or set X", "no token: give --token-file FILE, or set X")
	check("Text", "--token and --token-file are two ways", "--token and --token-file are two ways")
	check("Text", "Authorization was Bearer abcdefgh123.", "Authorization was Bearer \x01")
	check("Text", `{"password": "abc", "n": 1}`, `{"password": "`+"\x01"+`", "n": 1}`)
	check("Text", "p99<5ms,errors<0.1%", "p99<5ms,errors<0.1%")
	check("Shell", "DB_PASSWORD=abc PORT=1 ./srv --api-key=x --token y -p 1", "DB_PASSWORD=\x01 PORT=1 ./srv --api-key=\x01 --token \x01 -p 1")
	check("Shell", "curl -H 'Authorization: Bearer x' http://h", "curl -H 'Authorization: \x01' http://h")
	check("Shell", "curl -H X-Api-Key:abc http://h", "curl -H X-Api-Key:\x01 http://h")
	check("Shell", "./srv --dsn root:pw@tcp(db)/x", "./srv --dsn root:\x01@tcp(db)/x")
	check("Shell", "DSN=postgres://u:p@db/x ./srv", "DSN=postgres://\x01@db/x ./srv")
	check("Shell", "curl -u joe:pw http://h", "curl -u \x01 http://h")
	check("Shell", "DB='Server=db;Password=abc;' ./srv", "DB='Server=db;Password=\x01;' ./srv")
	check("Shell", `TOKEN="a b" ./srv`, `TOKEN="`+"\x01"+`" ./srv`)
	check("Shell", "ceiling serve fasthttp --addr {addr}", "ceiling serve fasthttp --addr {addr}")
	check("FieldLine", "Cookie:  a=1; b=2", "Cookie:  \x01")
	check("FieldLine", "Accept: text/html;q=0.9", "Accept: text/html;q=0.9")
	check("FieldLine", "Referer: http://h/?token=abc", "Referer: http://h/?token=\x01")
	check("Variable", "GITHUB_TOKEN=a=b c", "GITHUB_TOKEN=\x01")
	check("Variable", "GOMAXPROCS=1", "GOMAXPROCS=1")
	check("Variable", "DATABASE_URL=postgres://u:p@db/x", "DATABASE_URL=postgres://\x01@db/x")
	check("Field", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "\x01")
	check("Field", "Bearer abcdefgh", "Bearer \x01")
}

func TestHidesCommands(t *testing.T) {
	words := []string{
		"ceiling", "run", "-H", "Authorization: Bearer x", "-HCookie: a=1", "--header=X-Api-Key: 7", "-H", "Accept: */*", "-b", "a=1", "-b",
		"@file",
		"--body=xyz", "--token", "abc", "--token-file", "name", "--pprof", "http://u:p@c:4318", "--keep-secrets", "--serve", "TOKEN=abc ./srv",
		"-c", "64", "h/x?token=abc",
		"--curl", "curl -d pin h", "-body", "pin", "-header=Cookie: a=1", "-H", "authorization=x", "-headers", "X-Run=1",
	}
	want := []string{
		"ceiling", "run", "-H", "Authorization: hidden", "-HCookie: hidden", "--header=X-Api-Key: hidden", "-H", "Accept: */*", "-b", "hidden",
		"-b", "@file",
		"--body=hidden", "--token", "hidden", "--token-file", "name", "--pprof", "http://hidden@c:4318", "--keep-secrets", "--serve",
		"TOKEN=hidden ./srv", "-c", "64", "h/x?token=hidden",
		"--curl", "hidden", "-body", "hidden", "-header=Cookie: hidden", "-H", "authorization=hidden", "-headers", "X-Run=1",
	}
	if got := (&Hider{}).Command(words); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if found := InCommand(words); len(found) != 13 || found[0] != "Authorization: hidden" {
		t.Errorf("found %q", found)
	}
	if found := InCommand([]string{"ceiling", "run", "-c", "64", "-b", "@x", "http://h/simple"}); found != nil {
		t.Errorf("found %q", found)
	}
}

func TestEqualStaysEqual(t *testing.T) {
	a, b := hider("one"), hider("two")
	if x, y := a.Value("s3cret"), hider("one").Field("Authorization", "s3cret"); x != y || !IsHidden(x) || x == Word {
		t.Errorf("under one key: %s and %s", x, y)
	}
	if a.Value("s3cret") == b.Value("s3cret") || a.Value("s3cret") == a.Value("s3cret ") {
		t.Error("other keys and other values give the same")
	}
	if a.Body([]byte("s3cret")) != a.Value("s3cret") || a.Body(nil) != "" {
		t.Error("a body's digest is that of its bytes")
	}
	var none *Hider
	if none.Value("s3cret") != Word || none.Value("") != "" {
		t.Error("nil hides with the word alone")
	}
}

// TestRepeated: what a server repeats of a secret is hidden as well.
func TestRepeated(t *testing.T) {
	h := hider("k")
	h.Field("Authorization", "Bearer abcdef99")
	h.Field("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("joe:pass/word+1")))
	h.Field("Cookie", "theme=dark77; sid=zyxwv123")
	h.URL("http://h/?token=querysecret")
	text := h.Text("bad abcdef99, pass/word+1, pass%2Fword%2B1, zyxwv123, querysecret")
	for _, s := range []string{"abcdef99", "word", "zyxwv123", "querysecret"} {
		if strings.Contains(text, s) {
			t.Errorf("%s in %s", s, text)
		}
	}
	if h.Text("ok, dark") != "ok, dark" {
		t.Error("a harmless text is changed")
	}
}

// TestNothingOfTheSecretIsLeft puts random secrets where secrets stand.
func TestNothingOfTheSecretIsLeft(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"
	places := map[string][]string{
		"URL": {"http://%s@h/x", "http://u:%s@h/x?a=1", "/x?access_token=%s", "/x?a=1&sig=%s&b=2",
			"http://u:p%s@h:1/?token=%[1]s#key=%[1]s"},
		"Text": {"at http://u:%s@h: refused", `"http://h/?token=%s" is none`, "API_TOKEN=%s", "Bearer %sx1", `'Cookie: %s'`},
		"Shell": {"TOKEN=%s ./a", "./a --secret %s -x", "./a --secret=%s", "curl -H 'Cookie: %s' -u x", `A="1" PASSWORD='%s' ./a`,
			"x http://h/?token=%s&y"},
		"FieldLine": {"Authorization: %s", "authorization:%s", "X-Session-Token: %s", "Referer: http://%s@h/"},
		"Variable":  {"TOKEN=%s", "X_SECRET=%s", "URL=redis://:%s@h"},
		"Command":   {"-H\x00Cookie: %s", "--token\x00%s", "-b\x00%s", "--body=%s", "-HX-Key: %s", "http://%s@h", "--serve=TOKEN=%s ./a"},
	}
	for range 300 {
		s := make([]byte, 8+rnd.IntN(30))
		for i := range s {
			s[i] = letters[rnd.IntN(len(letters))]
		}
		s[0], s[len(s)-1] = 'Z', 'Q'
		for way, list := range places {
			for _, place := range list {
				text := strings.ReplaceAll(fmt.Sprintf(place, s), "%!(EXTRA", "")
				shown := ways(hider("k"))[way](text)
				for i := 0; i+4 <= len(s); i++ {
					if part := string(s[i : i+4]); strings.Contains(shown, part) {
						t.Fatalf("%s(%q) has %q: %s", way, text, part, shown)
					}
				}
			}
		}
	}
}

func FuzzHide(f *testing.F) {
	for _, s := range []string{
		"", "http://u:p@h/?token=a&b", "Authorization: Bearer abcdefgh", "A_TOKEN='x y' --key z", "-H\x00Cookie: a", "hidden-0123456789ab",
		"?token=hidden-0123456789ab;x=1",
		`{"password":"a\"b"}`, "://hidden@", "basic hidden-0123456789ab", "?key=?key=?key=", "a:b@c:d@e", "--token --token x", "'token: a'b'",
		"--key %3Fkey%3D",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name := range ways(&Hider{}) {
			for key, h := range map[string]*Hider{"plain": nil, "keyed": hider("k")} {
				once := ways(h)[name](text)
				if twice := ways(h)[name](once); twice != once {
					t.Errorf("%s, %s: %q becomes %q and then %q", name, key, text, once, twice)
				}
				if again := ways(hiderLike(h))[name](text); again != once {
					t.Errorf("%s, %s: %q becomes %q, and again %q", name, key, text, once, again)
				}
				if utf8.ValidString(text) && !utf8.ValidString(once) {
					t.Errorf("%s, %s: %q is no text any more: %q", name, key, text, once)
				}
			}
		}
	})
}

func hiderLike(h *Hider) *Hider {
	if h == nil {
		return nil
	}
	return hider("k")
}

func TestIsHidden(t *testing.T) {
	for text, want := range map[string]bool{
		"hidden": true, "hidden-0123456789ab": true, "hidden-0123456789a": false, "hidden-0123456789aB": false, "hidden-0123456789abc": false,
		"Hidden": false, "": false,
		"hidden-" + hex.EncodeToString([]byte("abcdef")): true,
	} {
		if IsHidden(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
