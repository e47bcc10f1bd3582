package dedupe_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

func TestACloudEventHasOneIDInAllModes(t *testing.T) {
	const body = `{"specversion":"1.0","type":"order.new","source":"/shops/süd 1","id":"42","data":{"id":"other"}}`
	tests := []struct {
		name   string
		header onefold.Header
		body   string
	}{
		{"binary", onefold.Header{"ce-specversion": {"1.0"}, "ce-source": {"/shops/s%C3%BCd%201"}, "ce-id": {"42"}, "content-type": {"application/json"}}, `{"id":"1"}`},
		{"binary, not encoded", onefold.Header{"ce-source": {"/shops/süd 1"}, "ce-id": {"42"}}, `x`},
		{"binary, another case", onefold.Header{"Ce-Source": {"/shops/süd 1"}, "CE-ID": {" 42 "}}, `x`},
		{"structured", onefold.Header{"content-type": {"application/cloudevents+json"}}, body},
		{"structured, parameters and another case", onefold.Header{"Content-Type": {"Application/CloudEvents+JSON; charset=UTF-8"}}, body},
		{"structured, format not named", onefold.Header{"content-type": {"application/cloudevents"}}, body},
		{"structured, malformed parameters", onefold.Header{"content-type": {"application/cloudevents+json; charset"}}, body},
		{"structured, attributes as headers too", onefold.Header{"content-type": {"application/cloudevents+json"}, "ce-id": {"7"}}, body},
		{"structured, no headers", nil, body},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := dedupe.CloudEventID(&onefold.Message{Header: tt.header, Data: []byte(tt.body)})
			require.NoError(t, err)
			assert.Equal(t, "13:/shops/süd 142", id)
		})
	}
}

func TestOneIDOfTwoSourcesIsTwoEvents(t *testing.T) {
	id := func(source, id string) string {
		all, err := dedupe.CloudEventID(&onefold.Message{Header: onefold.Header{"ce-source": {source}, "ce-id": {id}}})
		require.NoError(t, err)
		return all
	}
	assert.NotEqual(t, id("/a", "1"), id("/b", "1"))
	assert.NotEqual(t, id("/a", "11"), id("/a1", "1"), "characters moved between source and id")
	assert.Equal(t, id("/a", "100%"), id("/a", "100%25"), "what is no encoding is taken as it is")
}

func TestWhatIsNoCloudEventHasNoID(t *testing.T) {
	structured := onefold.Header{"content-type": {"application/cloudevents+json"}}
	tests := []struct {
		name   string
		header onefold.Header
		body   string
		says   string
	}{
		{"nothing", nil, ``, "nor a CloudEvent"},
		{"null", structured, `null`, "nor a CloudEvent"},
		{"no JSON", structured, `<event/>`, "nor a CloudEvent"},
		{"an array", structured, `[]`, "nor a CloudEvent"},
		{"other JSON", onefold.Header{"content-type": {"application/json"}}, `{"source":"/a","id":"1"}`, "ce-source is not set"},
		{"binary without a source", onefold.Header{"ce-id": {"1"}}, ``, "ce-source is not set"},
		{"binary without an id", onefold.Header{"ce-source": {"/a"}}, ``, "ce-id is not set"},
		{"binary with a blank id", onefold.Header{"ce-source": {"/a"}, "ce-id": {"%20"}}, ``, "ce-id is not set"},
		{"structured without a source", structured, `{"id":"1"}`, "member source is not set"},
		{"structured with an empty id", structured, `{"source":"/a","id":""}`, "member id is not set"},
		{"structured with a number as id", structured, `{"source":"/a","id":1}`, "member id is not set"},
		{"names of another case", structured, `{"source":"/a","ID":"1"}`, "member id is not set"},
		{"a batch", onefold.Header{"content-type": {"application/cloudevents-batch+json"}}, `[]`, "only application/cloudevents+json"},
		{"another format", onefold.Header{"content-type": {"application/cloudevents+avro"}}, ``, "+avro"},
		{"a long type", onefold.Header{"content-type": {"application/cloudevents+" + strings.Repeat("x", 5000)}}, ``, "can be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := dedupe.CloudEventID(&onefold.Message{Header: tt.header, Data: []byte(tt.body)})
			require.ErrorIs(t, err, dedupe.ErrMissingID)
			assert.ErrorContains(t, err, tt.says)
			assert.Less(t, len(err.Error()), 300)
		})
	}
	require.NoError(t, dedupe.CheckSource(dedupe.CloudEventID))
}

func TestOfTwoSpellingsOfAHeaderAlwaysTheSameOneCounts(t *testing.T) {
	m := &onefold.Message{Header: onefold.Header{"ce-source": {"/a"}, "CE-Id": {"1"}, "Ce-Id": {"2"}}}
	for range 50 {
		id, err := dedupe.CloudEventID(m)
		require.NoError(t, err)
		require.Equal(t, "2:/a1", id)
	}
}

func TestAnEventWhoseIDWasReplacedInDecodingHasNone(t *testing.T) {
	for _, body := range []string{`{"specversion":"1.0","source":"s","id":"\ud800"}`, "{\"specversion\":\"1.0\",\"source\":\"s\",\"id\":\"a\xfe\"}"} {
		_, err := dedupe.CloudEventID(&onefold.Message{Data: []byte(body)})
		require.ErrorIs(t, err, dedupe.ErrMissingID, body)
	}
}
