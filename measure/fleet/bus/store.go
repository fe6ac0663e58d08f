package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// keptFor is how long a run's samples, specs and profiles stay if no driver deletes them: a
	// driver that died can be restarted within a day.
	keptFor = 24 * time.Hour
	// DuplicatesWithin is how long a repeated sample is recognized after the first: an agent that
	// was disconnected resends what was not acknowledged.
	DuplicatesWithin = 10 * time.Minute
	specsMost        = 64 << 20
)

// Furnish creates the stream and the buckets of the test bed if they are missing; existing ones are
// unchanged. samples limits the stream, in bytes; a lease that is not renewed within lease is lost.
// The embedded server has done it; with an organisation's own NATS a driver does it once, or its
// administrator with other limits.
func (c *Conn) Furnish(ctx context.Context, samples int64, lease time.Duration) error {
	stream := jetstream.StreamConfig{
		Name: samplesStream(c.bed), Description: "what agents measured, until it is in the record",
		Subjects: []string{sampleSubject(c.bed, "*", "*")}, Storage: jetstream.FileStorage,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, // what no driver deleted goes first
		MaxBytes: samples, MaxAge: keptFor, MaxMsgSize: MaxPayload, Duplicates: DuplicatesWithin,
	}
	if _, err := c.js.CreateStream(ctx, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("make the stream of samples: %w", gone(err))
	}
	buckets := []jetstream.KeyValueConfig{
		{Bucket: specsBucket(c.bed), Description: "what runs are asked", TTL: keptFor, MaxBytes: specsMost, MaxValueSize: MaxBody},
		{Bucket: leaseBucket(c.bed), Description: "who has the test bed", TTL: lease, MaxBytes: 1 << 20},
	}
	for _, b := range buckets {
		if _, err := c.js.CreateKeyValue(ctx, b); err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return fmt.Errorf("make the bucket %s: %w", b.Bucket, gone(err))
		}
	}
	return nil
}

// PutSpec stores a run's spec for its agents. Anyone who knows the run's name in this test bed can
// read it, so the name should be random.
func (c *Conn) PutSpec(ctx context.Context, run string, body []byte) error {
	if err := checkRun(run); err != nil {
		return err
	}
	if len(body) > MaxBody {
		return fmt.Errorf("spec of run %s has %d bytes, %d at most: %w", run, len(body), MaxBody, ErrTooLarge)
	}
	kv, err := c.js.KeyValue(ctx, specsBucket(c.bed))
	if err == nil {
		_, err = kv.Put(ctx, run, body)
	}
	if err != nil {
		return fmt.Errorf("keep the spec of run %s: %w", run, gone(err))
	}
	return nil
}

// GetSpec reads a run's spec; ErrNotFound if there is none. It is one direct get, the only query of
// the bucket that an agent may send.
func (c *Conn) GetSpec(ctx context.Context, run string) ([]byte, error) {
	if err := checkRun(run); err != nil {
		return nil, err
	}
	bucket := specsBucket(c.bed)
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET.KV_"+bucket+".$KV."+bucket+"."+run, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("spec of run %s: %w", run, gone(err))
	case m.Header.Get("Status") == "404" || m.Header.Get("KV-Operation") != "":
		return nil, fmt.Errorf("spec of run %s: %w", run, ErrNotFound)
	case m.Header.Get("Status") != "":
		return nil, fmt.Errorf("spec of run %s: NATS says %s %s", run, m.Header.Get("Status"), m.Header.Get("Description"))
	}
	return m.Data, nil
}

// OpenProfiles creates space for an agent's profiles, at most size bytes; the driver calls it
// before the agent may store any.
func (c *Conn) OpenProfiles(ctx context.Context, agent string, size int64) error {
	if err := CheckName(agent); err != nil {
		return err
	}
	o := jetstream.ObjectStoreConfig{Bucket: profilesBucket(c.bed, agent), Description: "profiles", TTL: keptFor, MaxBytes: size}
	if _, err := c.js.CreateOrUpdateObjectStore(ctx, o); err != nil {
		return fmt.Errorf("make room for the profiles of agent %s: %w", agent, gone(err))
	}
	return nil
}

// PutProfile stores a profile of this agent, up to MaxProfile bytes.
func (c *Conn) PutProfile(ctx context.Context, run, name string, body []byte) error {
	if len(body) > MaxProfile {
		return fmt.Errorf("profile %s has %d bytes, %d at most: %w", name, len(body), MaxProfile, ErrTooLarge)
	}
	store, err := c.js.ObjectStore(ctx, profilesBucket(c.bed, c.name))
	if err == nil {
		_, err = store.PutBytes(ctx, run+"/"+name, body)
	}
	if err != nil {
		return fmt.Errorf("hand in profile %s: %w", name, gone(err))
	}
	return nil
}

// GetProfile reads a profile that an agent stored; ErrNotFound if there is none. NATS checks its
// SHA-256.
func (c *Conn) GetProfile(ctx context.Context, agent, run, name string) ([]byte, error) {
	store, err := c.js.ObjectStore(ctx, profilesBucket(c.bed, agent))
	var b []byte
	if err == nil {
		var info *jetstream.ObjectInfo
		if info, err = store.GetInfo(ctx, run+"/"+name); err == nil && info.Size > MaxProfile {
			return nil, fmt.Errorf("profile %s of agent %s has %d bytes, %d at most: %w", name, agent, info.Size, MaxProfile, ErrTooLarge)
		}
	}
	if err == nil {
		b, err = store.GetBytes(ctx, run+"/"+name)
	}
	if errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("profile %s of agent %s: %w", name, agent, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("profile %s of agent %s: %w", name, agent, gone(err))
	}
	return b, nil
}

// CloseProfiles deletes an agent's profiles.
func (c *Conn) CloseProfiles(ctx context.Context, agent string) error {
	err := c.js.DeleteObjectStore(ctx, profilesBucket(c.bed, agent))
	if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("throw away the profiles of agent %s: %w", agent, gone(err))
	}
	return nil
}

// Forget deletes a run's spec and samples, once they are in the record.
func (c *Conn) Forget(ctx context.Context, run string) error {
	if err := checkRun(run); err != nil {
		return err
	}
	stream, err := c.js.Stream(ctx, samplesStream(c.bed))
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(sampleSubject(c.bed, run, "*")))
	}
	if err == nil {
		var kv jetstream.KeyValue
		if kv, err = c.js.KeyValue(ctx, specsBucket(c.bed)); err == nil {
			err = kv.Purge(ctx, run)
		}
	}
	if err != nil {
		return fmt.Errorf("clear run %s away: %w", run, gone(err))
	}
	return nil
}
