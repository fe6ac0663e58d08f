package bus

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Nonce identifies one life of an agent: it is drawn at the agent's start, so that nothing sealed
// for an earlier life is obeyed in this one.
type Nonce [16]byte

// Envelope is a command sealed by the driver for one agent.
type Envelope struct {
	Session  Nonce
	Sequence uint64        // increases with every envelope of a session
	Issued   time.Duration // on the agent's own clock: time since that agent began
	Run      string
	Verb     string
	Body     []byte
}

// Why an envelope was not opened. Sender and agent learn these and no more.
var (
	ErrMalformed = errors.New("malformed command")
	ErrSignature = errors.New("command not signed by this test bed's controller")
	ErrSession   = errors.New("command for another start of this agent")
	ErrExpired   = errors.New("command too old, or from the future")
	ErrReplay    = errors.New("command seen before")
)

const (
	// MaxAge is how old an envelope may be when opened, and MaxAhead how far in the future: the
	// driver knows the agent's clock to a round trip.
	MaxAge   = 15 * time.Second
	MaxAhead = 5 * time.Second

	sealMark  = "ceiling command 1\n" // a signature here is valid for no other protocol
	sealFixed = len(sealMark) + len(Nonce{}) + 8 + 8 + 1 + 1 + 4
	maxVerb   = 32
	maxRun    = 64
	maxSealed = sealFixed + maxVerb + maxRun + MaxBody + ed25519.SignatureSize
)

// Signer seals commands with the controller's key.
type Signer struct{ key ed25519.PrivateKey }

// Public returns the key that agents verify with.
func (s Signer) Public() ed25519.PublicKey { return s.key.Public().(ed25519.PublicKey) }

// Seal encodes and signs e:
//
//	"ceiling command 1\n" | session 16 | sequence u64 | issued i64, ns |
//	run u8 + bytes | verb u8 + bytes | body u32 + bytes | ed25519 signature 64
//
// big-endian. The error says which field is too long.
func (s Signer) Seal(e Envelope) ([]byte, error) {
	switch {
	case len(e.Verb) == 0 || len(e.Verb) > maxVerb:
		return nil, fmt.Errorf("seal: verb of %d bytes, want 1 to %d", len(e.Verb), maxVerb)
	case len(e.Run) > maxRun:
		return nil, fmt.Errorf("seal: run of %d bytes, %d at most", len(e.Run), maxRun)
	case len(e.Body) > MaxBody:
		return nil, fmt.Errorf("seal: body of %d bytes, %d at most: %w", len(e.Body), MaxBody, ErrTooLarge)
	}
	b := make([]byte, 0, sealFixed+len(e.Run)+len(e.Verb)+len(e.Body)+ed25519.SignatureSize)
	b = append(b, sealMark...)
	b = append(b, e.Session[:]...)
	b = binary.BigEndian.AppendUint64(b, e.Sequence)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Issued))
	b = append(append(b, byte(len(e.Run))), e.Run...)
	b = append(append(b, byte(len(e.Verb))), e.Verb...)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(e.Body))), e.Body...)
	return append(b, ed25519.Sign(s.key, b)...), nil
}

// Opener is the agent's side of a session. It is safe for concurrent use.
type Opener struct {
	// Key is the controller's public key, from the token.
	Key ed25519.PublicKey
	// Session is this life of the agent.
	Session Nonce
	// Clock returns the time since this agent began, on a monotonic clock.
	Clock func() time.Duration

	mu   sync.Mutex
	last uint64
}

// Open verifies and decodes. The error is one of the five above; a rejected envelope does not
// change the session. Body is part of b.
func (o *Opener) Open(b []byte) (Envelope, error) {
	if len(b) < sealFixed+ed25519.SignatureSize || len(b) > maxSealed || string(b[:len(sealMark)]) != sealMark {
		return Envelope{}, ErrMalformed
	}
	signed, signature := b[:len(b)-ed25519.SignatureSize], b[len(b)-ed25519.SignatureSize:]
	if len(o.Key) != ed25519.PublicKeySize || !ed25519.Verify(o.Key, signed, signature) {
		return Envelope{}, ErrSignature
	}
	e, ok := decodeEnvelope(signed[len(sealMark):])
	if !ok {
		return Envelope{}, ErrMalformed
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.Clock()
	switch {
	case e.Session != o.Session:
		return Envelope{}, ErrSession
	case e.Sequence <= o.last:
		return Envelope{}, ErrReplay
	case e.Issued < now-MaxAge || e.Issued > now+MaxAhead:
		return Envelope{}, ErrExpired
	}
	o.last = e.Sequence
	return e, nil
}

// Last returns the sequence of the last envelope opened: a driver continues after it.
func (o *Opener) Last() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

func decodeEnvelope(b []byte) (Envelope, bool) {
	var e Envelope
	b = b[copy(e.Session[:], b):]
	e.Sequence = binary.BigEndian.Uint64(b)
	e.Issued = time.Duration(binary.BigEndian.Uint64(b[8:]))
	run, b, ok := cutShort(b[16:], maxRun)
	if !ok {
		return Envelope{}, false
	}
	verb, b, ok := cutShort(b, maxVerb)
	if !ok || len(verb) == 0 || len(b) < 4 {
		return Envelope{}, false
	}
	if n := binary.BigEndian.Uint32(b); uint64(n) != uint64(len(b)-4) {
		return Envelope{}, false
	}
	e.Run, e.Verb, e.Body = string(run), string(verb), b[4:]
	return e, true
}

// cutShort splits off a string preceded by its length of one byte.
func cutShort(b []byte, most int) (head, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) > most || len(b)-1 < int(b[0]) {
		return nil, nil, false
	}
	return b[1 : 1+int(b[0])], b[1+int(b[0]):], true
}
