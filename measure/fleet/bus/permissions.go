package bus

import "time"

// An agent answers a question once, and a long command within this time.
const (
	AnswersMost = 1
	AnswersFor  = 5 * time.Minute
)

// Permissions are the subjects that a user may publish to and subscribe to, with NATS wildcards.
type Permissions struct {
	Publish, Subscribe []string
	// Answer allows it to answer each request once.
	Answer bool
}

// AgentPermissions are what an agent of bed needs, by that name, and all it
// needs: the embedded server gives it these, and in an organisation's own
// cluster its user should have them (testdata/accounts.conf). The driver's user
// there makes streams and buckets, for which NATS has no narrower permission
// than the account's whole JetStream: an account for each test bed keeps the
// drivers apart.
//
//   - It subscribes to its own commands, pings and questions, its own inbox, and the
//     discovery of micro services.
//   - It publishes samples under its name, and profiles into its own bucket.
//   - It reads the spec of a run whose name it knows, by direct get, but cannot list
//     them: its subjects do not include stream info.
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
