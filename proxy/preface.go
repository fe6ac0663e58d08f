package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
)

// PROXY protocol, versions 1 and 2, as specified in HAProxy's proxy-protocol.txt.

var (
	// errPreface is for an invalid PROXY protocol header, or one from an untrusted client.
	errPreface = errors.New("no PROXY protocol header")
	signature2 = []byte("\r\n\r\n\x00\r\nQUIT\n") // read-only
)

// maxPreface1 is the longest version 1 header, including its CRLF.
const maxPreface1 = 107

// parsePreface parses the header at the start of b. n = 0 without an error means that it is
// incomplete. An invalid address stands for the connection's own: the proxy speaks for itself
// (LOCAL), or for a client without one.
func parsePreface(b []byte) (client netip.AddrPort, n int, err error) {
	if k := min(len(b), len(signature2)); bytes.Equal(b[:k], signature2[:k]) {
		return parsePreface2(b)
	}
	const v1 = "PROXY "
	if k := min(len(b), len(v1)); string(b[:k]) != v1[:k] {
		return client, 0, errPreface
	}
	i := bytes.IndexByte(b[:min(len(b), maxPreface1)], '\n')
	switch {
	case i < 0 && len(b) < maxPreface1:
		return client, 0, nil
	case i < 1 || b[i-1] != '\r':
		return client, 0, errPreface
	}
	client, err = parseWords(string(b[len(v1) : i-1]))
	return client, i + 1, err
}

// parseWords parses "TCP4 source destination port port", or UNKNOWN.
func parseWords(line string) (client netip.AddrPort, err error) {
	words := strings.Split(line, " ")
	if words[0] == "UNKNOWN" {
		return client, nil
	}
	if len(words) != 5 || words[0] != "TCP4" && words[0] != "TCP6" {
		return client, errPreface
	}
	for i := range 2 {
		host := words[1+i]
		if words[0] == "TCP6" {
			host = "[" + host + "]"
		}
		a, err := netip.ParseAddrPort(host + ":" + words[3+i])
		if err != nil || a.Addr().Is4() != (words[0] == "TCP4") || a.Addr().Zone() != "" {
			return netip.AddrPort{}, errPreface
		}
		if i == 0 {
			client = a
		}
	}
	return client, nil
}

// parsePreface2 parses the binary form: signature, version and command, family, length,
// addresses, and extensions, which it skips.
func parsePreface2(b []byte) (client netip.AddrPort, n int, err error) {
	if len(b) < 16 {
		return client, 0, nil
	}
	length := int(binary.BigEndian.Uint16(b[14:]))
	if b[12]>>4 != 2 || length > maxWaiting/2 {
		return client, 0, errPreface
	}
	if len(b) < 16+length {
		return client, 0, nil
	}
	at := b[16 : 16+length]
	n = 16 + length
	switch command := b[12] & 15; {
	case command == 0: // LOCAL
		return client, n, nil
	case command != 1:
		return client, 0, errPreface
	case b[13] == 0x11 && len(at) >= 12:
		a, _ := netip.AddrFromSlice(at[:4])
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(at[8:])), n, nil
	case b[13] == 0x21 && len(at) >= 36:
		a, _ := netip.AddrFromSlice(at[:16])
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(at[32:])), n, nil
	case b[13] == 0x00, b[13]>>4 == 3: // unspecified, unix
		return client, n, nil
	}
	return client, 0, errPreface
}

// preface handles the header at the start of a connection. Only a trusted proxy may say who the
// client is.
func (c *client) preface() {
	client, n, err := parsePreface(c.in.b)
	switch {
	case err != nil, n > 0 && !c.conn.loop.site.trusts(c.remote.Addr()):
		c.conn.loop.counts.badRequests++
		if c.conn.tls != nil {
			c.conn.loop.admission.secured.failures[badPreface]++
		}
		c.end()
		return
	case n == 0:
		return
	}
	if client.IsValid() {
		c.remote = client
	}
	if c.conn.tls != nil { // the first byte of the handshake comes first in the buffer
		c.in.b = c.in.b[:copy(c.in.b, c.in.b[n:])]
		c.state = atGreeting
		c.greetSoon()
		return
	}
	c.at = n
	c.state = atHead
	if c.enter() {
		c.run()
	}
}
