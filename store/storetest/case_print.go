package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func printCases() []testCase {
	return []testCase{
		{name: "another fingerprint on a running key is a mismatch", run: mismatchRunning,
			rule: "Begin with another fingerprint than that of the live claim says mismatch, not busy, and tells the claim's."},
		{name: "another fingerprint on a done key is a mismatch", run: mismatchDone,
			rule: "Begin with another fingerprint than that of the stored record says mismatch, not done, and shows the record and its fingerprint."},
		{name: "the holder itself cannot change the fingerprint", run: mismatchHolder,
			rule: "Begin with the holder of the live claim and another fingerprint says mismatch."},
		{name: "a released claim binds no fingerprint", run: releasedBindsNothing,
			rule: "After Release a key can be claimed with any fingerprint."},
		{name: "fingerprints of other versions never mismatch", run: otherVersions,
			rule: "Fingerprints of different versions, and the zero fingerprint, match everything."},
	}
}

// beginPrinted asks for k with a fingerprint.
func (e *env) beginPrinted(k onefold.Key, p onefold.Fingerprint) onefold.Grant {
	e.Helper()
	r := request(k)
	r.Fingerprint = p
	return e.beginAs(r)
}

func mismatchRunning(e *env) {
	c := e.claim(key("a"))
	g := e.beginPrinted(key("a"), print(2))
	assert.Equal(e, onefold.Mismatch.String(), g.Verdict.String())
	assert.Nil(e, g.Claim)
	assert.Equal(e, print(1), g.Held, "Grant.Held is that of the claim")
	e.verdict(onefold.Busy, key("a"), "the equal fingerprint")
	e.commit(c, entry(key("a")))
}

func mismatchDone(e *env) {
	e.done(entry(key("a")))
	g := e.beginPrinted(key("a"), print(2))
	assert.Equal(e, onefold.Mismatch.String(), g.Verdict.String())
	require.NotNil(e, g.Record)
	assert.Equal(e, print(1), g.Record.Fingerprint)
	assert.Equal(e, print(1), g.Held, "Grant.Held is that of the record")
	e.verdict(onefold.Done, key("a"), "the equal fingerprint")
}

func mismatchHolder(e *env) {
	r := request(key("a"))
	e.claimAs(r)
	r.Fingerprint = print(2)
	assert.Equal(e, onefold.Mismatch.String(), e.beginAs(r).Verdict.String())
}

func releasedBindsNothing(e *env) {
	c := e.claim(key("a"))
	require.NoError(e, e.store.Release(e.ctx, c, onefold.Failure{Reason: "no", Counted: true}))
	assert.Equal(e, onefold.Granted.String(), e.beginPrinted(key("a"), print(2)).Verdict.String())
}

func otherVersions(e *env) {
	newer := onefold.Fingerprint{Version: 2, Sum: [16]byte{9}}
	e.claim(key("running"))
	e.done(entry(key("done")))
	for _, p := range []onefold.Fingerprint{newer, {}} {
		assert.Equal(e, onefold.Busy.String(), e.beginPrinted(key("running"), p).Verdict.String(), p.String())
		assert.Equal(e, onefold.Done.String(), e.beginPrinted(key("done"), p).Verdict.String(), p.String())
	}
	en := entry(key("unchecked"))
	en.Fingerprint = onefold.Fingerprint{}
	e.done(en)
	e.verdict(onefold.Done, key("unchecked"), "a record without a fingerprint")
}
