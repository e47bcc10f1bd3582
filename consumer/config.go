package consumer

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// The defaults of Config. docs/defaults.md lists them.
const (
	DefaultConcurrency     = 8
	DefaultMaxAttempts     = 20
	DefaultRetryMin        = 250 * time.Millisecond
	DefaultRetryMax        = 5 * time.Minute
	DefaultAckWait         = 30 * time.Second
	DefaultLease           = 30 * time.Second
	DefaultRetention       = 24 * time.Hour
	DefaultMaxAckPending   = 10_000
	DefaultHandlerTimeout  = 15 * time.Minute
	DefaultShutdownTimeout = 20 * time.Second
	DefaultLostTimeout     = 2 * time.Minute
	DefaultRelayWithin     = time.Minute

	// DefaultDeadLetterStream catches every dead letter whose subject no other stream captures.
	DefaultDeadLetterStream = "ONEFOLD_DEAD"
	// DefaultDeadLetterPrefix is followed by the stream and the consumer: one subject per consumer.
	DefaultDeadLetterPrefix = "onefold.dead."
)

// Config says what to consume and how. Stream, Name and Handler or Batch are required; the zero value of every
// other field is a good choice.
type Config struct {
	Stream  string          // stream to read; it must exist
	Name    string          // name of the durable consumer; made if it does not exist, adopted if it does
	Handler onefold.Handler // does the work
	Batch   *Batch          // does the work of several messages in one call, in place of Handler

	// FilterSubjects selects messages; empty: all of the stream, or what an adopted consumer has. To have
	// an adopted consumer read all again, give ">".
	FilterSubjects []string
	// DeliverPolicy, StartSequence and StartTime say where a new consumer starts; default: with the first
	// message. An adopted consumer keeps its position, and a consumer that was lost is made again behind
	// the last position that this store has settled.
	DeliverPolicy jetstream.DeliverPolicy
	StartSequence uint64
	StartTime     time.Time

	// ID finds the message's ID; default dedupe.DefaultID. A message without one becomes a dead letter at
	// once; dedupe.FirstOf(dedupe.DefaultID, dedupe.PositionID) takes its stream position instead.
	ID dedupe.IDSource
	// Fingerprint digests what a message says; default dedupe.SubjectAndBody.
	Fingerprint dedupe.Fingerprinter
	// Scope separates the IDs of this consumer from others in the same store; default "stream/name".
	// Changing it forgets what was done.
	Scope string

	// OrderBy names what a message belongs to, for instance an order or an account; nil or "": no order. Of the
	// messages that this process holds no two of one ordering key run at once, and none starts before an earlier
	// one that it has seen is settled (done or a dead letter): a message that fails holds up its key until then.
	// docs/guarantees.md says how far that goes; several processes on one durable are not in one order. It must
	// depend on the message alone; a panic makes a dead letter of the message. OrderBy costs rate where a key has
	// many messages, and an AckWait at the start after a crash.
	OrderBy func(*onefold.Message) string
	// RateLimit is asked for a token before each message is claimed, duplicates included; nil: no limit. One
	// limiter may serve several consumers, and its limit may be changed while they run.
	RateLimit *rate.Limiter
	// RelayWithin is for how long effects may wait in the store with no relay asking for them: then nothing more
	// is claimed until one does (StateUnrelayed), because what handlers send would only pile up. Default
	// DefaultRelayWithin; negative: for ever.
	RelayWithin time.Duration

	// ParkUnknown is for handlers that do things of their own which must not be done twice, such as a payment without
	// an idempotency key. Without it a message whose run was cut short (its process died, its claim was lost) runs
	// again. With it the handler runs again only after it has returned an error itself; whenever nobody knows what
	// a run has done, its message is parked: a dead letter of class onefold.ClassUnknown, with the outcome
	// onefold.ParkedUnknown, that a person decides on. That is so after the death of the process, a lost claim, a
	// zombie, a panic, a commit that was refused, an error that wraps onefold.ErrUnknown, and any error of a
	// handler whose context was cancelled, or that wraps the end of a context, except Permanent and RetryAfter. Its
	// price is a second commit for each message, before the handler runs.
	ParkUnknown bool

	Concurrency     int           // messages in handlers at once; default DefaultConcurrency, or with Batch twice its Size
	MaxAttempts     int           // runs before a failing message becomes a dead letter; default DefaultMaxAttempts
	RetryMin        time.Duration // delay after the first failure; doubles; default DefaultRetryMin
	RetryMax        time.Duration // longest delay; default DefaultRetryMax
	AckWait         time.Duration // server's patience, renewed while we work; default DefaultAckWait, or what an adopted consumer has
	Lease           time.Duration // life of a claim, renewed while we work; default DefaultLease
	Retention       time.Duration // how long a finished key dedupes republished copies; default DefaultRetention
	RepublishWithin time.Duration // longest time after which a producer or a person publishes an ID again; Retention must cover it; 0: not checked
	MaxAckPending   int           // unanswered messages the server allows; default DefaultMaxAckPending, or what an adopted consumer has
	// HandlerTimeout is the longest time that one run of the handler may take; default DefaultHandlerTimeout.
	// There is no way to switch it off: a run that never ends would keep its message for ever; give a long time
	// for long work. When it is over, the handler's context is cancelled with the cause ErrHandlerTimeout (it
	// has no deadline before), within an eighth of the time. If the handler then returns an error, that is a
	// failed attempt; if it returns nil, it has succeeded. If it does not return within a grace of a quarter of
	// HandlerTimeout (at least 0.1 s, at most 10 s), the attempt has failed, the message may run again beside it,
	// and the run is a zombie: whatever it still asks for is refused, another worker takes its place, and
	// Observer.Zombie names it. With more than 8 zombies, or than Concurrency if that is more, Run ends with
	// ErrZombies.
	HandlerTimeout  time.Duration
	ShutdownTimeout time.Duration // time for running handlers to end; Run returns a few seconds later at most; default DefaultShutdownTimeout

	// DeadLetterSubject is where dead letters go; default DefaultDeadLetterPrefix + "stream.name".
	// If no stream captures it, DeadLetterStream (default DefaultDeadLetterStream) is made for it.
	DeadLetterSubject string
	DeadLetterStream  string

	// BindOnly writes no configuration: the durable and the stream of dead letters must exist, and are
	// checked. Which store goes with the durable is not noted then; only another live process is found.
	BindOnly bool
	// AdoptDurable takes the durable over for this store, although its metadata names another store or a later
	// time of this one, or somebody else made it. What that store has done is forgotten: it runs again when
	// it comes again. From then on the durable counts as made by onefold, and is made again from this Config
	// when it is lost. Set it for one start.
	AdoptDurable bool
	// LostTimeout is how long a stream that has vanished, or a durable that is not ours to make, may stay away
	// before Run ends; default DefaultLostTimeout.
	LostTimeout time.Duration
	// ReplyPrefix is what the subjects of answers to requests must begin with, so that a message cannot have
	// something published anywhere; default nats.InboxPrefix. See HeaderReplyTo. Whoever can publish an ID with its
	// payload can read its result.
	ReplyPrefix string

	Observer *onefold.Observer // nil: nobody is told
	Clock    onefold.Clock     // zero: the machine's
}

// withDefaults returns c with every unset field at its default, except those that an adopted consumer
// decides (AckWait, MaxAckPending, FilterSubjects).
func (c Config) withDefaults() Config {
	c.withBatch()
	setDefault(&c.Concurrency, DefaultConcurrency)
	setDefault(&c.MaxAttempts, DefaultMaxAttempts)
	setDefault(&c.RetryMin, DefaultRetryMin)
	setDefault(&c.RetryMax, max(DefaultRetryMax, c.RetryMin))
	setDefault(&c.Lease, DefaultLease)
	setDefault(&c.Retention, DefaultRetention)
	setDefault(&c.HandlerTimeout, DefaultHandlerTimeout)
	setDefault(&c.ShutdownTimeout, DefaultShutdownTimeout)
	setDefault(&c.LostTimeout, DefaultLostTimeout)
	setDefault(&c.RelayWithin, DefaultRelayWithin)
	setDefault(&c.Scope, c.Stream+"/"+c.Name)
	setDefault(&c.DeadLetterSubject, DefaultDeadLetterPrefix+c.Stream+"."+c.Name)
	setDefault(&c.DeadLetterStream, DefaultDeadLetterStream)
	setDefault(&c.ReplyPrefix, nats.InboxPrefix)
	if c.ID == nil {
		c.ID = dedupe.DefaultID
	}
	if c.Fingerprint == nil {
		c.Fingerprint = dedupe.SubjectAndBody
	}
	if c.Observer == nil {
		c.Observer = &onefold.Observer{}
	}
	c.Clock = c.Clock.OrSystem()
	return c
}

// part names the consumer in a StateEvent.
func (c Config) part() string { return "consumer " + c.Stream + "/" + c.Name }

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
