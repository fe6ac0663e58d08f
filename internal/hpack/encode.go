package hpack

// AppendField appends a field to a block, without the dynamic table: as an index if the static
// table has it completely, otherwise as a literal without indexing, so that the block does not
// depend on earlier ones. sensitive marks a field that intermediaries must not index (RFC 7541,
// section 6.2.3). The name must be in lower case.
func AppendField[T string | []byte](dst []byte, name, value T, sensitive bool) []byte {
	at := staticNames[string(name)]
	if at > 0 && !sensitive {
		for i := int(at); i <= len(static) && static[i-1].name == string(name); i++ {
			if static[i-1].value == string(value) && (len(value) > 0 || i == 1) {
				return appendInt(dst, flagIndexed, 7, uint64(i))
			}
		}
	}
	kind := byte(0)
	if sensitive {
		kind = flagNever
	}
	dst = appendInt(dst, kind, 4, uint64(at))
	if at == 0 {
		dst = appendText(dst, name)
	}
	return appendText(dst, value)
}

// appendText appends a string literal in its shorter form (section 5.2).
func appendText[T string | []byte](dst []byte, s T) []byte {
	if n := huffmanLen(s); n < len(s) {
		return appendHuffman(appendInt(dst, flagHuffman, 7, uint64(n)), s)
	}
	return append(appendInt(dst, 0, 7, uint64(len(s))), s...)
}

// appendInt appends an integer after the flags of its first byte (section 5.1).
func appendInt(dst []byte, flags byte, prefix uint8, v uint64) []byte {
	most := uint64(1)<<prefix - 1
	if v < most {
		return append(dst, flags|byte(v))
	}
	dst = append(dst, flags|byte(most))
	for v -= most; v >= 0x80; v >>= 7 {
		dst = append(dst, byte(v)|0x80)
	}
	return append(dst, byte(v))
}
