package bus

import (
	"fmt"
	"strings"
	"time"
)

// An agent answers a question once, and a long command within this.
const (
	answersMost = 1
	answersFor  = 5 * time.Minute
)

// Permissions are subjects that a user may publish to and subscribe to; NATS'
// wildcards.
type Permissions struct {
	Publish, Subscribe []string
	// Answer lets it answer, once, to what it was asked.
	Answer bool
}

// AgentPermissions are what an agent of bed needs, by that name, and all it
// needs: the embedded server gives it these, and in an organisation's own
// cluster its user should have them (testdata/accounts.conf). The driver's user
// there makes streams and buckets, for which NATS has no narrower permission
// than the account's whole JetStream: an account for each test bed keeps the
// drivers apart.
//
//   - It hears its own commands, pings and questions, its own inbox, and the
//     discovery of micro services.
//   - It publishes samples under its name, and profiles into its own bucket.
//   - It reads a spec whose run it was told, by direct get, but cannot list
//     them: there is no stream info among its subjects.
func AgentPermissions(bed, name string) Permissions {
	profiles := profilesBucket(bed, name)
	specs := specsBucket(bed)
	return Permissions{
		Publish: []string{
			sampleSubject(bed, "*", name),
			"$JS.API.DIRECT.GET.KV_" + specs + ".$KV." + specs + ".*",
			"$O." + profiles + ".>",
			"$JS.API.STREAM.INFO.OBJ_" + profiles,
			"$JS.API.STREAM.PURGE.OBJ_" + profiles,
			"$JS.API.DIRECT.GET.OBJ_" + profiles + ".>",
		},
		Subscribe: []string{
			agentSubject(bed, name, ">"),
			inbox(bed, name) + ".>",
			"$SRV.PING", "$SRV.INFO", "$SRV.STATS",
			"$SRV.*." + serviceName(bed),
			"$SRV.*." + serviceName(bed) + ".*",
		},
		Answer: true,
	}
}

// Configuration is the account of a test bed for the configuration file of an
// organisation's own NATS server, with a user for the driver and one for each
// agent, who have their passwords from the environment. Each test bed has an
// account of its own; where NATS is run with an operator and credentials files,
// the same permissions go into the users' JWTs.
func Configuration(bed string, agents []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "accounts {\n  ceiling_%s {\n    jetstream: enabled\n    users: [\n", strings.ReplaceAll(bed, "-", "_"))
	fmt.Fprintf(&b, "      { user: driver, password: $CEILING_DRIVER }\n")
	for _, name := range agents {
		p := AgentPermissions(bed, name)
		fmt.Fprintf(&b, "      { user: %q, password: $CEILING_AGENT, permissions: {\n", name)
		fmt.Fprintf(&b, "        publish: [\n          %s\n        ]\n", quoted(p.Publish))
		fmt.Fprintf(&b, "        subscribe: [\n          %s\n        ]\n", quoted(p.Subscribe))
		fmt.Fprintf(&b, "        allow_responses: { max: %d, expires: \"%v\" }\n      } }\n", answersMost, answersFor)
	}
	b.WriteString("    ]\n  }\n}\n")
	return b.String()
}

func quoted(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = `"` + s + `"`
	}
	return strings.Join(q, "\n          ")
}
