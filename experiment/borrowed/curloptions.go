package borrowed

import (
	"strings"
)

// What an option of curl does here.
const (
	unknown = iota
	refused // it would be another request, or another client
	applied // to the request, or as a flag of the run
	idle    // it concerns curl's own output, files and retries
)

// option is one of curl's.
type option struct {
	name  string // the long one
	does  int
	value bool // it has one
}

// curlOptions returns the options of curl up to 8.19 (docs/cmdline-opts of its source), by their names and
// letters. Letters stand before the names that they are short for.
func curlOptions() map[string]option {
	all := map[string]option{}
	for _, row := range []struct {
		does  int
		value bool
		names string
	}{
		{applied, true, `X request H header d data data-ascii data-binary data-raw data-urlencode json url-query F form form-string u user
			A user-agent e referer b cookie r range oauth2-bearer url cacert E cert key ciphers curves resolve unix-socket m max-time x proxy`},
		{applied, false, "G get I head compressed k insecure L location g globoff path-as-is http1.1 http2 http2-prior-knowledge tlsv1.3"},
		{idle, true, `o output output-dir w write-out c cookie-jar D dump-header stderr trace trace-ascii trace-config libcurl etag-save
			create-file-mode connect-timeout expect100-timeout happy-eyeballs-timeout-ms keepalive-time keepalive-cnt max-redirs proto
			proto-redir retry retry-delay retry-max-time Y speed-limit y speed-time parallel-max parallel-max-host egd-file random-file`},
		{idle, false, `s silent S show-error v verbose i include show-headers f fail fail-early fail-with-body no-progress-meter # progress-bar
			O remote-name J remote-header-name remote-name-all R remote-time remove-on-error create-dirs no-clobber skip-existing out-null xattr
			N no-buffer tcp-nodelay no-keepalive q disable retry-all-errors retry-connrefused Z parallel parallel-immediate basic raw B use-ascii
			styled-output suppress-connect-headers trace-ids trace-time disallow-username-in-url j junk-session-cookies post301 post302 post303
			1 tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 ssl-no-revoke ssl-revoke-best-effort`},
		{refused, false, `abstract-unix-socket alt-svc anyauth a append aws-sigv4 ca-native capath cert-status cert-type compressed-ssh K config
			connect-to C continue-at crlf crlfile delegation digest disable-eprt disable-epsv dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers
			doh-cert-status doh-insecure doh-url dump-ca-embed ech engine etag-compare false-start follow form-escape ftp-account
			ftp-alternative-to-user ftp-create-dirs ftp-method ftp-pasv P ftp-port ftp-pret ftp-skip-pasv-ip ftp-ssl-ccc ftp-ssl-ccc-mode
			ftp-ssl-control haproxy-clientip haproxy-protocol h help hostpubmd5 hostpubsha256 hsts http0.9 0 http1.0 http3 http3-only httpsig-algo
			httpsig-headers httpsig-key httpsig-keyid ignore-content-length interface ip-tos ipfs-gateway 4 ipv4 6 ipv6 key-type knownhosts krb
			limit-rate l list-only local-port location-trusted login-options mail-auth mail-from mail-rcpt mail-rcpt-allowfails M manual
			max-filesize metalink mptcp negotiate n netrc netrc-file netrc-optional : next no-alpn no-npn no-sessionid noproxy ntlm ntlm-wb pass
			pinnedpubkey preproxy proto-default proxy-anyauth proxy-basic proxy-ca-native proxy-cacert proxy-capath proxy-cert proxy-cert-type
			proxy-ciphers proxy-crlfile proxy-digest proxy-header proxy-http2 proxy-http3 proxy-insecure proxy-key proxy-key-type proxy-negotiate
			proxy-ntlm proxy-pass proxy-pinnedpubkey proxy-service-name proxy-ssl-allow-beast proxy-ssl-auto-client-cert proxy-tls13-ciphers
			proxy-tlsauthtype proxy-tlspassword proxy-tlsuser proxy-tlsv1 U proxy-user proxy1.0 p proxytunnel pubkey Q quote rate request-target
			sasl-authzid sasl-ir service-name sigalgs socks4 socks4a socks5 socks5-basic socks5-gssapi socks5-gssapi-nec socks5-gssapi-service
			socks5-hostname ssl ssl-allow-beast ssl-auto-client-cert ssl-reqd ssl-sessions 2 sslv2 3 sslv3 tcp-fastopen t telnet-option
			tftp-blksize tftp-no-options z time-cond tls-earlydata tls-max tls13-ciphers tlsauthtype tlspassword tlsuser tr-encoding T upload-file
			upload-flags variable V version vlan-priority`},
	} {
		names := strings.Fields(row.names)
		for i, name := range names {
			all[name] = option{names[min(i+1/len(name), len(names)-1)], row.does, row.value}
		}
	}
	return all
}
