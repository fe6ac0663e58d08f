package websocket

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"

	"ceiling/internal/http1"
)

// guid is appended to the key by the server (section 1.3).
const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// Key returns the value of Sec-WebSocket-Key for a nonce of 16 bytes.
func Key(nonce [16]byte) string { return base64.StdEncoding.EncodeToString(nonce[:]) }

// accept returns the only correct answer to a key.
func accept(key string) string {
	sum := sha1.Sum([]byte(key + guid))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// CheckAnswer validates the response to an opening handshake with the given key: the head b, with
// its status and the lines of list (section 4.1). It returns 0 if the connection is a WebSocket
// from there on. subprotocol is set if one was requested.
func CheckAnswer(status int, b []byte, list []http1.Line, key string, subprotocol bool) ProtocolError {
	if status != 101 {
		return ErrStatus
	}
	for i := range list {
		switch name := list[i].Name(b); {
		case bytes.EqualFold(name, []byte("sec-websocket-extensions")):
			return ErrExtension
		case !subprotocol && bytes.EqualFold(name, []byte("sec-websocket-protocol")):
			return ErrSubprotocol
		}
	}
	return CheckSwitch(b, list, key)
}

// CheckSwitch is CheckAnswer for a proxy that forwards a 101 response: it ignores the negotiated
// extensions and subprotocol.
func CheckSwitch(b []byte, list []http1.Line, key string) ProtocolError {
	var upgrade, connection bool
	accepts, right := 0, false
	for i := range list {
		name, value := list[i].Name(b), list[i].Value(b)
		switch {
		case bytes.EqualFold(name, []byte("upgrade")):
			upgrade = upgrade || http1.HasToken(value, "websocket")
		case bytes.EqualFold(name, []byte("connection")):
			connection = connection || http1.HasToken(value, "upgrade")
		case bytes.EqualFold(name, []byte("sec-websocket-accept")):
			accepts++
			right = string(value) == accept(key)
		}
	}
	switch {
	case !upgrade:
		return ErrUpgrade
	case !connection:
		return ErrConnection
	case accepts != 1 || !right:
		return ErrAccept
	}
	return 0
}
