// The tests of deploy/: a module of its own, so that nobody who builds ceiling
// pays for them.
module ceiling/deploy

go 1.26.0

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
)

require golang.org/x/text v0.32.0 // indirect
