package hpack

import "math/bits"

// huffmanBits is the length of each byte's code (RFC 7541, Appendix B). The code is canonical:
// codes ascend with length, and within a length with the byte.
var huffmanBits = [256]uint8{
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
	28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
	6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
	5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
	13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
	15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
	6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
	20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
	24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
	22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
	21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
	26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
	19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
	20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
	26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
} // read-only

const (
	huffmanMost = 30 // bits of the longest codes, EOS among them
	quickBits   = 9  // found by one lookup: all that heads usually contain
)

// huffman is the code in the forms for decoding and encoding.
type huffman struct {
	code [256]uint32
	// quick is the byte and length of codes up to quickBits, indexed by the next bits; length 0:
	// a longer code.
	quick [1 << quickBits]struct{ b, bits uint8 }
	// first is the lowest code of each length, left-aligned in huffmanMost bits; order has the
	// bytes in code order, at is the start of each length.
	first [huffmanMost + 2]uint32
	at    [huffmanMost + 2]int
	order [256]byte
}

var codes = newHuffman() // read-only

func newHuffman() *huffman {
	h := &huffman{}
	code, n := uint32(0), 0
	for length := uint8(1); length <= huffmanMost; length++ {
		code <<= 1
		h.first[length], h.at[length] = code<<(huffmanMost-length), n
		for b, bits := range huffmanBits {
			if bits != length {
				continue
			}
			h.code[b] = code
			h.order[n] = byte(b)
			if length <= quickBits {
				for k := range 1 << (quickBits - length) {
					h.quick[int(code)<<(quickBits-length)+k].b, h.quick[int(code)<<(quickBits-length)+k].bits = byte(b), length
				}
			}
			code++
			n++
		}
	}
	h.first[huffmanMost+1] = code // EOS, which is invalid in a text
	return h
}

// huffmanLen returns the encoded length of s in bytes.
func huffmanLen[T string | []byte](s T) int {
	n := 0
	for i := range len(s) {
		n += int(huffmanBits[s[i]])
	}
	return (n + 7) / 8
}

func appendHuffman[T string | []byte](dst []byte, s T) []byte {
	var have uint64
	n := uint8(0)
	for i := range len(s) {
		have = have<<huffmanBits[s[i]] | uint64(codes.code[s[i]])
		for n += huffmanBits[s[i]]; n >= 8; {
			n -= 8
			dst = append(dst, byte(have>>n))
		}
	}
	if n > 0 { // padded with the most significant bits of EOS: ones
		dst = append(dst, byte(have<<(8-n))|byte(0xff>>n))
	}
	return dst
}

// decodeHuffman appends the decoded b to dst (RFC 7541, section 5.2).
func decodeHuffman(dst, b []byte) ([]byte, bool) {
	var have uint64 // the current bits, left-aligned
	n := 0
	for {
		for n <= 56 && len(b) > 0 {
			have |= uint64(b[0]) << (56 - n)
			b = b[1:]
			n += 8
		}
		if n == 0 {
			return dst, true
		}
		if q := codes.quick[have>>(64-quickBits)]; q.bits != 0 {
			if int(q.bits) > n {
				break
			}
			dst = append(dst, q.b)
			have <<= q.bits
			n -= int(q.bits)
			continue
		}
		next := uint32(have >> (64 - huffmanMost))
		if next >= codes.first[huffmanMost+1] {
			break // EOS, or padding
		}
		length := quickBits + 1
		for length < huffmanMost && next >= codes.first[length+1] {
			length++
		}
		if length > n {
			break
		}
		dst = append(dst, codes.order[codes.at[length]+int(next-codes.first[length])>>(huffmanMost-length)])
		have <<= length
		n -= length
	}
	// The rest must be fewer than eight bits, all ones.
	return dst, n < 8 && bits.LeadingZeros64(^have) >= n
}
