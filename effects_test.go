package onefold_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
)

var order7 = onefold.Key{Scope: "ORDERS/billing", ID: "order-7"}

func newEffects(st onefold.StateReader) *onefold.Effects {
	return onefold.NewEffects(onefold.RunInfo{Key: order7, Attempt: 2, Token: 9}, st)
}

func TestEffectsAreBufferedWithStableIDs(t *testing.T) {
	build := func() onefold.Entry {
		fx := newEffects(nil)
		fx.Publish("charges", map[string]int{"cents": 500})
		fx.Emit(onefold.Effect{Target: "mails", Payload: []byte("hi"), OrderKey: "customer-1", NotBefore: time.Unix(9, 0)})
		fx.Emit(onefold.Effect{Target: "reminders", Timer: "overdue"})
		fx.Result("ok")
		entry, err := fx.Seal()
		require.NoError(t, err)
		return entry
	}
	entry := build()
	require.Len(t, entry.Effects, 3)
	assert.Equal(t, order7, entry.Key)
	assert.Equal(t, `{"cents":500}`, string(entry.Effects[0].Payload))
	assert.Equal(t, onefold.KindMessage, entry.Effects[0].Kind)
	assert.Equal(t, []string{order7.EffectID(0), order7.EffectID(1), entry.Effects[2].ID},
		[]string{entry.Effects[0].ID, entry.Effects[1].ID, entry.Effects[2].ID})
	assert.Equal(t, `"ok"`, string(entry.Result))
	assert.Equal(t, entry, build(), "a rerun asks for the same")
}

func TestWhatCanNeverLeaveIsFoundWhenItIsBuffered(t *testing.T) {
	message := func(e onefold.Effect) func(*onefold.Effects) {
		return func(fx *onefold.Effects) { fx.Emit(e) }
	}
	for name, c := range map[string]struct {
		do   func(*onefold.Effects)
		want string // field and value that the error names
		is   error
	}{
		"empty subject":      {message(onefold.Effect{}), "field Target: onefold: invalid argument: subject is empty", onefold.ErrInvalid},
		"blank in subject":   {message(onefold.Effect{Target: "a b"}), `subject "a b" contains a blank`, onefold.ErrInvalid},
		"wildcard":           {message(onefold.Effect{Target: "a.*"}), `wildcard "*"`, onefold.ErrInvalid},
		"empty token":        {message(onefold.Effect{Target: "a..b"}), "empty token", onefold.ErrInvalid},
		"endless subject":    {message(onefold.Effect{Target: strings.Repeat("a", 2000)}), "2000 bytes", onefold.ErrInvalid},
		"reserved header":    {message(onefold.Effect{Target: "a", Header: onefold.Header{"Nats-TTL": {"1s"}}}), `header "Nats-TTL"`, onefold.ErrInvalid},
		"our header":         {message(onefold.Effect{Target: "a", Header: onefold.Header{"onefold-id": {"1"}}}), `header "onefold-id"`, onefold.ErrInvalid},
		"bad header name":    {message(onefold.Effect{Target: "a", Header: onefold.Header{"a:b": {"1"}}}), `"a:b"`, onefold.ErrInvalid},
		"slash in name":      {message(onefold.Effect{Target: "a", Header: onefold.Header{"App/Tenant": {"1"}}}), `"App/Tenant"`, onefold.ErrInvalid},
		"foreign name":       {message(onefold.Effect{Target: "a", Header: onefold.Header{"Größe": {"1"}}}), `"Größe"`, onefold.ErrInvalid},
		"padded value":       {message(onefold.Effect{Target: "a", Header: onefold.Header{"A": {" 1"}}}), "blank at an end", onefold.ErrInvalid},
		"line break":         {message(onefold.Effect{Target: "a", Header: onefold.Header{"A": {"x\r\ny"}}}), "line break", onefold.ErrInvalid},
		"large header":       {message(onefold.Effect{Target: "a", Header: onefold.Header{"A": {strings.Repeat("x", 70_000)}}}), "Header", onefold.ErrTooLarge},
		"large payload":      {message(onefold.Effect{Target: "a", Payload: make([]byte, onefold.DefaultMaxPayload)}), "Payload", onefold.ErrTooLarge},
		"connection":         {message(onefold.Effect{Target: "a", Conn: "other"}), `Conn is "other"`, onefold.ErrInvalid},
		"own ID":             {message(onefold.Effect{Target: "a", ID: "mine"}), `ID is "mine"`, onefold.ErrInvalid},
		"unknown kind":       {message(onefold.Effect{Kind: "fax", Target: "a"}), `Kind is "fax"`, onefold.ErrInvalid},
		"once message":       {message(onefold.Effect{Target: "a", Once: true}), "Once", onefold.ErrInvalid},
		"cancel nothing":     {message(onefold.Effect{Cancel: true}), "Timer is empty", onefold.ErrInvalid},
		"unencodable":        {func(fx *onefold.Effects) { fx.Publish("a", math.NaN()) }, `publish to "a"`, onefold.ErrInvalid},
		"unencodable result": {func(fx *onefold.Effects) { fx.Result(func() {}) }, "result", onefold.ErrInvalid},
		"table without name": {func(fx *onefold.Effects) { fx.Put("", "k", nil) }, "table is empty", onefold.ErrInvalid},
		"our table":          {func(fx *onefold.Effects) { fx.Put("onefold.floor", "k", nil) }, `"onefold.floor"`, onefold.ErrInvalid},
		"key without name":   {func(fx *onefold.Effects) { fx.Delete("t", "") }, `table "t" is empty`, onefold.ErrInvalid},
		"long key":           {func(fx *onefold.Effects) { fx.Put("t", strings.Repeat("k", 3000), nil) }, "3001 bytes", onefold.ErrInvalid},
		"no life":            {func(fx *onefold.Effects) { fx.PutFor("t", "k", nil, 0) }, "retain is 0s", onefold.ErrInvalid},
		"large entry":        {func(fx *onefold.Effects) { fx.Put("t", "k", make([]byte, onefold.DefaultMaxEntry)) }, "by reference", onefold.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newEffects(nil)
			c.do(fx)
			_, err := fx.Seal()
			require.ErrorIs(t, err, c.is)
			assert.ErrorContains(t, err, c.want)
			assert.True(t, onefold.IsPermanent(err), "no retry can help")
		})
	}
}

func TestWhatIsBufferedCannotBeChangedFromOutside(t *testing.T) {
	fx := newEffects(nil)
	header, payload, value := onefold.Header{"A": {"1"}}, []byte("x"), []byte("x")
	fx.Emit(onefold.Effect{Target: "a", Header: header, Payload: payload})
	fx.Publish("b", payload)
	fx.Put("t", "k", value)
	header["Nats-Rollup"], header["A"][0], payload[0], value[0] = []string{"all"}, "2", 'y', 'y'
	entry, err := fx.Seal()
	require.NoError(t, err)
	assert.Equal(t, onefold.Header{"A": {"1"}}, entry.Effects[0].Header)
	assert.Equal(t, "xxx", string(entry.Effects[0].Payload)+string(entry.Effects[1].Payload)+string(entry.Writes[0].Value))
}

func TestAReplacedValueCountsOnce(t *testing.T) {
	fx := newEffects(nil)
	for range 20 {
		fx.Put("t", "k", make([]byte, 1<<20))
		fx.Result(make([]byte, 1<<20))
	}
	assert.NoError(t, fx.Err())
}

func TestTheFirstBufferingErrorIsKept(t *testing.T) {
	fx := newEffects(nil)
	fx.Publish("a b", 1)
	fx.Publish("", 1)
	assert.ErrorContains(t, fx.Err(), `"a b"`)
}

func TestAReadRemembersItsVersionAndSeesOwnWrites(t *testing.T) {
	st := memstore.New()
	defer func() { require.NoError(t, st.Close(context.Background())) }()
	ctx := context.Background()
	seed := &onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: "stock", Key: "apple", Value: []byte("3")}}}}
	require.NoError(t, st.Commit(ctx, []*onefold.Commit{seed}))
	require.NoError(t, seed.Err)

	fx := newEffects(st)
	data, ok, err := fx.Get(ctx, "stock", "apple")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "3", string(data))
	_, ok, err = fx.Get(ctx, "stock", "pear")
	require.NoError(t, err)
	assert.False(t, ok)

	fx.Put("stock", "apple", []byte("2"))
	data, ok, _ = fx.Get(ctx, "stock", "apple")
	assert.True(t, ok)
	assert.Equal(t, "2", string(data))
	fx.Delete("stock", "apple")
	_, ok, _ = fx.Get(ctx, "stock", "apple")
	assert.False(t, ok)

	entry, err := fx.Seal()
	require.NoError(t, err)
	require.Len(t, entry.Reads, 2, "the absent key is a read too")
	assert.NotZero(t, entry.Reads[0].Version)
	assert.Zero(t, entry.Reads[1].Version)
	require.Len(t, entry.Writes, 1, "the last write of a key counts")
	assert.True(t, entry.Writes[0].Delete)
}

func TestEffectsAfterTheRunChangeNothing(t *testing.T) {
	fx := newEffects(nil)
	fx.Publish("a", 1)
	entry, err := fx.Seal()
	require.NoError(t, err)
	fx.Publish("b", 1)
	fx.Put("t", "k", nil)
	fx.Result("late")
	fx.Fail(errors.New("late"))
	_, _, err = fx.Get(context.Background(), "t", "k")
	assert.ErrorIs(t, err, onefold.ErrSealed)
	assert.Equal(t, 5, fx.Late())
	again, err := fx.Seal()
	require.NoError(t, err)
	assert.Equal(t, entry, again)
}

func TestErrorsCarryTheHandlersWishes(t *testing.T) {
	cause := errors.New("no such order")
	assert.True(t, onefold.IsPermanent(fmt.Errorf("wrapped: %w", onefold.Permanent(cause))))
	assert.ErrorIs(t, onefold.Permanent(cause), cause)
	assert.False(t, onefold.IsPermanent(cause))
	assert.NoError(t, onefold.Permanent(nil))
	assert.NoError(t, onefold.RetryAfter(time.Second, nil))

	d, ok := onefold.RetryDelay(fmt.Errorf("wrapped: %w", onefold.RetryAfter(time.Minute, cause)))
	assert.True(t, ok)
	assert.Equal(t, time.Minute, d)
	d, _ = onefold.RetryDelay(onefold.RetryAfter(-1, cause))
	assert.Zero(t, d)
	_, ok = onefold.RetryDelay(cause)
	assert.False(t, ok)
}

func ExampleNewEffects() {
	fx := onefold.NewEffects(onefold.RunInfo{Key: onefold.Key{Scope: "ORDERS/billing", ID: "order-7"}}, nil)
	fx.Publish("charges", map[string]int{"cents": 500})
	entry, err := fx.Seal()
	fmt.Println(entry.Effects[0].Target, string(entry.Effects[0].Payload), err)
	// Output: charges {"cents":500} <nil>
}

func ExamplePermanent() {
	err := onefold.Permanent(errors.New("order has no ID"))
	fmt.Println(err, onefold.IsPermanent(err))
	// Output: order has no ID true
}

func ExampleEffects_Get() {
	// A handler that counts what each customer has ordered. Were two of them to run at once for one
	// customer, the second commit would be refused and that handler run again on the new value.
	handler := func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		data, _, err := fx.Get(ctx, "orders-by-customer", "c7")
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(data)) // absent counts as 0
		fx.Put("orders-by-customer", "c7", []byte(strconv.Itoa(n+1)))
		return nil
	}

	ctx := context.Background()
	st := memstore.New()
	for i := range 3 { // what a consumer does for each message
		fx := onefold.NewEffects(onefold.RunInfo{Key: onefold.Key{Scope: "ORDERS/count", ID: strconv.Itoa(i)}}, st)
		if err := handler(ctx, nil, fx); err != nil {
			fmt.Println(err)
		}
		entry, _ := fx.Seal()
		entry.Outcome, entry.Retain = onefold.Succeeded, time.Hour
		_ = st.Commit(ctx, []*onefold.Commit{{Entry: entry}})
	}
	v, err := st.Read(ctx, "orders-by-customer", "c7")
	fmt.Println(string(v.Data), err)
	_ = st.Close(ctx)
	// Output: 3 <nil>
}

func ExampleRetryAfter() {
	err := onefold.RetryAfter(time.Minute, errors.New("the bank is closed"))
	d, ok := onefold.RetryDelay(err)
	fmt.Println(err, d, ok)
	// Output: the bank is closed 1m0s true
}

// joinFor is a join for stores of a kind.
type joinFor string

func (j joinFor) StoreKind() string { return string(j) }

func TestJoinForAnotherKindOfStoreIsRefusedWhenItIsBuffered(t *testing.T) {
	fx := onefold.NewEffects(onefold.RunInfo{Key: order7, StoreKind: "here"}, nil)
	require.NoError(t, fx.Join(joinFor("here")))
	err := fx.Join(joinFor("elsewhere"))
	require.ErrorIs(t, err, onefold.ErrUnsupported)
	require.ErrorContains(t, err, `"elsewhere"`)
	require.ErrorIs(t, fx.Err(), onefold.ErrUnsupported)
	assert.True(t, onefold.IsPermanent(fx.Err()))
	entry, _ := fx.Seal()
	assert.Equal(t, []onefold.Join{joinFor("here")}, entry.Joins)
	require.ErrorIs(t, fx.Join(joinFor("here")), onefold.ErrSealed)
	assert.Equal(t, 1, fx.Late())
}

func TestJoinIsLeftToTheCommitWhereTheStoreIsNotKnown(t *testing.T) {
	fx := newEffects(nil)
	require.NoError(t, fx.Join(joinFor("anywhere")))
	require.ErrorIs(t, fx.Join(nil), onefold.ErrInvalid)
}

// panicking is a store that panics when it is read.
type panicking struct{}

func (panicking) Read(context.Context, string, string) (onefold.Value, error) { panic("read") }

func TestAPanicInAReadLeavesTheEffectsUsable(t *testing.T) {
	fx := onefold.NewEffects(onefold.RunInfo{Key: onefold.Key{Scope: "s", ID: "i"}}, panicking{})
	assert.PanicsWithValue(t, "read", func() { _, _, _ = fx.Get(t.Context(), "t", "k") })
	_, err := fx.Seal()
	assert.NoError(t, err)
}

func TestWhatFitsIntoTheBufferFitsIntoTheEntry(t *testing.T) {
	key := onefold.Key{Scope: strings.Repeat("s", 100), ID: strings.Repeat("i", 100)}
	for n := 500; n < 1000; n++ {
		fx := onefold.NewEffects(onefold.RunInfo{Key: key, Limits: onefold.Limits{MaxEntry: 1000}}, nil)
		fx.Publish("a", make([]byte, n))
		e, err := fx.Seal()
		if e.Key = key; err == nil {
			assert.LessOrEqual(t, e.Bytes(), 1000)
		}
	}
}
