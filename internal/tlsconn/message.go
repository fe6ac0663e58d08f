package tlsconn

import (
	"crypto/tls"
	"io"
)

// Alerts that are sent, or that are not errors (RFC 8446, section 6).
const (
	alertWarning, alertFatal = 1, 2

	alertClose      = 0
	alertUnexpected = 10
	alertMAC        = 20
	alertOverflow   = 22
	alertInternal   = 80
	alertCanceled   = 90
)

// Handshake messages allowed after a handshake (RFC 8446, section 4).
const (
	messageTicket    = 4
	messageKeyUpdate = 24
	messageHeader    = 4
)

// other handles a record without application data.
func (c *Conn) other(kind byte, plain []byte) error {
	if c.idle++; c.idle > idleMost {
		return ErrIdle
	}
	old := c.in.about != nil // of TLS 1.2: a handshake message would begin another handshake
	switch {
	case kind == typeHandshake && len(plain) > 0 && !old:
		return c.messages(plain)
	case len(c.message) > 0: // no other record may come within a message (section 5.1)
		return ErrUnexpected
	case kind == typeData:
		return nil
	case kind == typeAlert && len(plain) == 2 && old && plain[0] == alertWarning && plain[1] != alertClose:
		return nil // as crypto/tls
	case kind == typeAlert && len(plain) == 2:
		return alerted(plain[1])
	}
	return ErrUnexpected
}

func alerted(code byte) error {
	switch code {
	case alertClose:
		return io.EOF
	case alertCanceled: // a close_notify follows
		return nil
	}
	return tls.AlertError(code)
}

// messages handles handshake messages, whole ones and the beginning of the next.
func (c *Conn) messages(b []byte) error {
	if len(c.message) > 0 {
		b = append(c.message, b...)
		c.message = b
	}
	for len(b) >= messageHeader {
		n := messageHeader + (int(b[1])<<16 | int(b[2])<<8 | int(b[3]))
		if n > messageMost {
			return ErrOversize
		}
		if len(b) < n {
			break
		}
		if err := c.take(b[0], b[messageHeader:n], len(b) > n); err != nil {
			return err
		}
		b = b[n:]
	}
	c.message = append(c.message[:0], b...)
	return nil
}

// take handles one message; more reports whether others follow it in its record.
func (c *Conn) take(kind byte, body []byte, more bool) error {
	switch {
	case kind == messageTicket && c.server == nil:
		c.keep(body)
		return nil
	case kind != messageKeyUpdate || len(body) != 1 || body[0] > 1 || more: // it must end its record (section 5.1)
		return ErrUnexpected
	}
	if err := c.in.update(); err != nil {
		return err
	}
	// One answer for any number of them, before our next data (section 4.6.3).
	c.owed = c.owed || body[0] == 1
	return nil
}

// renew announces new keys for the next record to the peer, and switches to them.
func (c *Conn) renew(dst []byte) []byte {
	c.owed = false
	dst = c.out.seal(dst, typeHandshake, []byte{messageKeyUpdate, 0, 0, 1, 0}) // not requesting the peer's
	if err := c.out.update(); err != nil {
		c.err = err
	}
	return dst
}

// fail ends the connection, and sends the peer the reason.
func (c *Conn) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	code := byte(alertInternal)
	switch err {
	case io.EOF:
		return
	case ErrMAC:
		code = alertMAC
	case ErrOversize:
		code = alertOverflow
	case ErrUnexpected, ErrIdle:
		code = alertUnexpected
	}
	if _, theirs := err.(tls.AlertError); !theirs && c.shake == nil {
		c.pending = c.out.seal(c.pending, typeAlert, []byte{alertFatal, code})
	}
}
