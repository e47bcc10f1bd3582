package protobuf_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer/protobuf"
)

func TestAHandlerGetsTheDecodedMessage(t *testing.T) {
	failed := errors.New("failed")
	var got []string
	h := protobuf.Handler(func(_ context.Context, m *wrapperspb.StringValue, _ *onefold.Effects) error {
		got = append(got, m.GetValue())
		return failed
	})
	for _, value := range []string{"a", ""} {
		body, err := proto.Marshal(wrapperspb.String(value))
		require.NoError(t, err)
		require.Equal(t, failed, h(t.Context(), &onefold.Message{Data: body}, nil))
	}
	assert.Equal(t, []string{"a", ""}, got)
}

func TestABodyThatDoesNotDecodeIsPermanent(t *testing.T) {
	h := protobuf.Handler(func(context.Context, *wrapperspb.StringValue, *onefold.Effects) error {
		assert.Fail(t, "ran")
		return nil
	})
	for _, body := range []string{"{}", "\x0a\x05a", "\x0a\x01\xff"} { // JSON, cut short, no UTF-8
		err := h(t.Context(), &onefold.Message{Data: []byte(body)}, nil)
		require.ErrorContains(t, err, "decode body as google.protobuf.StringValue: ")
		assert.True(t, onefold.IsPermanent(err))
	}
}

func TestANilFunctionMakesANilHandler(t *testing.T) {
	assert.Nil(t, protobuf.Handler[wrapperspb.StringValue](nil))
}

func ExampleHandler() {
	handler := protobuf.Handler(func(_ context.Context, cents *wrapperspb.Int64Value, _ *onefold.Effects) error {
		fmt.Println("bill", cents.GetValue())
		return nil
	})
	body, err := proto.Marshal(wrapperspb.Int64(1200))
	if err != nil {
		log.Fatal(err)
	}
	if err := handler(context.Background(), &onefold.Message{Data: body}, nil); err != nil {
		log.Fatal(err)
	}
	// Output: bill 1200
}
