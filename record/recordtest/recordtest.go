// Package recordtest makes records for tests.
package recordtest

import "ceiling/record"

// Say returns a statement that reads as the text.
func Say(text string) record.Statement { return record.State("said", record.Values{"text": text}) }

// Says returns statements that read as the texts.
func Says(texts ...string) []record.Statement {
	list := make([]record.Statement, len(texts))
	for i, text := range texts {
		list[i] = Say(text)
	}
	return list
}
