package tlsconn

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"

	"golang.org/x/crypto/chacha20poly1305"
)

// Types of a record (RFC 8446, section 5.1).
const (
	typeAlert     = 21
	typeHandshake = 22
	typeData      = 23
)

const (
	headerBytes = 5
	// plainMost is the most a record holds, without its padding and type.
	plainMost = 1 << 14
	// sealedMost is the most it may take on the wire after its header; up to TLS 1.2 ciphers were
	// allowed more overhead (RFC 5246, section 6.2.3).
	sealedMost   = plainMost + 256
	sealedMost12 = plainMost + 2048
	tagBytes     = 16
	// keyRecords is how many records one key seals before it is changed: AES-GCM allows 2^24.5
	// full-size records (RFC 8446, section 5.5).
	keyRecords = 1 << 24
)

// Errors of a record, or of what it holds.
var (
	ErrMAC        = errors.New("bad TLS record MAC")
	ErrOversize   = errors.New("TLS record too long")
	ErrUnexpected = errors.New("unexpected TLS message")
)

// half protects the records of one direction.
type half struct {
	aead     cipher.AEAD
	suite    uint16 // with its secret, of TLS 1.3
	secret   []byte
	seq      uint64
	tail     uint64            // the last eight bytes of the IV
	nonce    [12]byte          // the first four are the IV's
	explicit int               // bytes of the nonce that each record carries
	about    *[aboutBytes]byte // nil with TLS 1.3
}

// keys derives the keys of a cipher suite from a traffic secret (RFC 8446, section 7.3).
func (h *half) keys(suite uint16, secret []byte) error {
	digest, keyBytes := hashOf(suite), 32
	if suite == tls.TLS_AES_128_GCM_SHA256 {
		keyBytes = 16
	}
	key, err := expand(digest, secret, "key", keyBytes)
	if err != nil {
		return err
	}
	iv, err := expand(digest, secret, "iv", len(h.nonce))
	if err != nil {
		return err
	}
	switch suite {
	case tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384:
		var block cipher.Block
		if block, err = aes.NewCipher(key); err == nil {
			h.aead, err = cipher.NewGCM(block)
		}
	case tls.TLS_CHACHA20_POLY1305_SHA256:
		h.aead, err = chacha20poly1305.New(key)
	default:
		err = fmt.Errorf("tlsconn: cipher suite %#04x is not one of TLS 1.3", suite)
	}
	h.suite, h.secret, h.seq = suite, secret, 0
	copy(h.nonce[:], iv)
	h.tail = binary.BigEndian.Uint64(iv[4:])
	return err
}

// update switches to the next keys (RFC 8446, section 7.2).
func (h *half) update() error {
	digest := hashOf(h.suite)
	next, err := expand(digest, h.secret, "traffic upd", digest().Size())
	if err != nil {
		return err
	}
	return h.keys(h.suite, next)
}

func hashOf(suite uint16) func() hash.Hash {
	switch suite {
	case tls.TLS_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:
		return sha512.New384
	}
	return sha256.New
}

// expand is HKDF-Expand-Label with an empty context (RFC 8446, section 7.1).
func expand(digest func() hash.Hash, secret []byte, label string, n int) ([]byte, error) {
	label = "tls13 " + label
	info := append(binary.BigEndian.AppendUint16(nil, uint16(n)), byte(len(label)))
	info = append(append(info, label...), 0)
	return hkdf.Expand(digest, secret, string(info), n)
}

// number returns the nonce of the next record.
func (h *half) number() []byte {
	binary.BigEndian.PutUint64(h.nonce[4:], h.tail^h.seq)
	h.seq++
	return h.nonce[:]
}

// seal appends one record to dst.
func (h *half) seal(dst []byte, kind byte, plain []byte) []byte {
	if h.about != nil {
		return h.seal12(dst, kind, plain)
	}
	n := len(plain) + 1 + tagBytes
	dst = slices.Grow(dst, headerBytes+n)
	at := len(dst) + headerBytes
	dst = append(dst, typeData, 3, 3, byte(n>>8), byte(n))
	dst = append(append(dst, plain...), kind)
	return h.aead.Seal(dst[:at], h.number(), dst[at:], dst[at-headerBytes:at])
}

// sealApart appends one record of data to dst, encrypted from elsewhere. The last byte of plain is
// after the data: it temporarily holds the type, since the encrypted bytes must be contiguous.
func (h *half) sealApart(dst, plain []byte) []byte {
	if h.about != nil {
		return h.seal12(dst, typeData, plain[:len(plain)-1])
	}
	n := len(plain) + tagBytes
	dst = slices.Grow(dst, headerBytes+n)
	at := len(dst)
	dst = append(dst, typeData, 3, 3, byte(n>>8), byte(n))
	behind := &plain[len(plain)-1]
	kept := *behind
	*behind = typeData
	dst = h.aead.Seal(dst, h.number(), plain, dst[at:at+headerBytes])
	*behind = kept
	return dst
}

// open decrypts a whole record in place, and returns a view of it.
func (h *half) open(record []byte) (kind byte, plain []byte, err error) {
	if h.about != nil {
		return h.open12(record)
	}
	header, sealed := record[:headerBytes], record[headerBytes:]
	if header[0] != typeData {
		return 0, nil, ErrUnexpected
	}
	plain, err = h.aead.Open(sealed[:0], h.number(), sealed, header)
	if err != nil {
		return 0, nil, ErrMAC
	}
	if len(plain) > plainMost+1 {
		return 0, nil, ErrOversize
	}
	for i := len(plain) - 1; i >= 0; i-- {
		if kind = plain[i]; kind != 0 {
			return kind, plain[:i], nil
		}
	}
	return 0, nil, ErrUnexpected // only padding
}

// Records of TLS 1.2 with authenticated encryption: AES-GCM (RFC 5288), whose nonce ends with eight
// bytes that each record carries, and ChaCha20-Poly1305 (RFC 7905), whose nonce is as in TLS 1.3.

const (
	explicitBytes = 8
	aboutBytes    = 13
)

// begin12 starts with the second record: crypto/tls has protected the first, Finished.
func (h *half) begin12(key, iv []byte) (err error) {
	h.about, h.seq = new([aboutBytes]byte), 1
	copy(h.nonce[:], iv)
	if len(iv) == len(h.nonce) {
		h.tail = binary.BigEndian.Uint64(iv[len(iv)-explicitBytes:])
		h.aead, err = chacha20poly1305.New(key)
		return err
	}
	h.explicit = explicitBytes
	block, err := aes.NewCipher(key)
	if err == nil {
		h.aead, err = cipher.NewGCM(block)
	}
	return err
}

// describe returns what is authenticated besides a record's n bytes (RFC 5246, section 6.2.3.3).
func (h *half) describe(kind byte, n int) []byte {
	binary.BigEndian.PutUint64(h.about[:], h.seq)
	h.about[8], h.about[9], h.about[10], h.about[11], h.about[12] = kind, 3, 3, byte(n>>8), byte(n)
	return h.about[:]
}

// seal12 appends one record to dst, encrypted from elsewhere. The number of a record is the part of
// its nonce that it carries.
func (h *half) seal12(dst []byte, kind byte, plain []byte) []byte {
	n := h.explicit + len(plain) + tagBytes
	dst = slices.Grow(dst, headerBytes+n)
	dst = append(dst, kind, 3, 3, byte(n>>8), byte(n))
	about, nonce := h.describe(kind, len(plain)), h.number()
	dst = append(dst, nonce[len(nonce)-h.explicit:]...)
	return h.aead.Seal(dst, nonce, plain, about)
}

// open12 decrypts a whole record in place, and returns a view of it.
func (h *half) open12(record []byte) (kind byte, plain []byte, err error) {
	kind, sealed := record[0], record[headerBytes:]
	n := len(sealed) - h.explicit - tagBytes
	switch {
	case record[1] != 3 || record[2] != 3:
		return 0, nil, ErrUnexpected
	case n < 0:
		return 0, nil, ErrMAC
	case n > plainMost:
		return 0, nil, ErrOversize
	}
	about, nonce := h.describe(kind, n), h.number()
	copy(nonce[len(nonce)-h.explicit:], sealed) // the peer's choice
	sealed = sealed[h.explicit:]
	if plain, err = h.aead.Open(sealed[:0], nonce, sealed, about); err != nil {
		return 0, nil, ErrMAC
	}
	return kind, plain, nil
}
